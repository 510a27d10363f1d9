import CurlEngine
import Glibc
import LinuxSystem
import TransferCore
import WireProtocol

/// Clients: they come, ask, are told, and go.
extension Daemon {
  /// Connections at once: bounds descriptors and memory, whatever connects.
  private static let peerLimit = 4096
  /// Bytes that may wait for the client of a data task before the server is made to wait.
  private static let clientBacklog = 1 << 20
  /// Ids in one request.
  private static let identifiers = 100_000

  func acceptPeers() {
    // A bounded number a turn; the listener is level-triggered.
    for _ in 0..<64 {
      do throws(SystemError) {
        guard let socket = try UnixSocket.accept(listener.descriptor) else { return }
        try FaultPoint.reach("peer.accept")
        let credentials = try UnixSocket.peerCredentials(socket.raw)
        guard credentials.userID == geteuid() || credentials.userID == 0 else {
          log.write(.warning, "Refused a connection of user \(credentials.userID).")
          continue
        }
        guard peers.count < Self.peerLimit else {
          log.write(.warning, "Refused a connection: \(Self.peerLimit) are open.")
          continue
        }
        lastPeer += 1
        let peer = Peer(id: PeerID(rawValue: lastPeer), descriptor: socket, processID: credentials.processID)
        peer.registration = try loop.register(descriptor: peer.descriptor, interest: .readable) {
          [unowned self, unowned peer] readiness in
          if !readiness.isDisjoint(with: [.readable, .hangUp, .error]) { peer.receive(into: &scratch) }
          if !readiness.isDisjoint(with: [.hangUp, .error]) {
            // Nobody is there to be told what is held.
            peer.dropHeld()
            flushLater(peer)
          }
          if readiness.contains(.writable) { flushLater(peer) }
        }
        peers[peer.id] = peer
        peerOrder.append(peer.id)
      } catch {
        // The waiting connection keeps the listener ready: without a pause the loop would do nothing else.
        log.write(.warning, "A connection could not be taken: \(error); the next try is in a second.")
        setListening(false)
        listensAgainAt = .now() + .seconds(1)
        return
      }
    }
  }

  func listenAgain(_ now: ClockReading) {
    guard let due = listensAgainAt, due <= now.boot else { return }
    listensAgainAt = nil
    setListening(true)
  }

  private func setListening(_ isOn: Bool) {
    if let listening { try? loop.modify(listening, interest: isOn ? .readable : []) }
  }

  func drop(_ peer: Peer, _ now: ClockReading, _ effects: inout [Effect]) {
    if let registration = peer.registration { loop.remove(registration) }
    peers[peer.id] = nil
    peerOrder.removeAll { $0 == peer.id }
    watchersOfAll.removeAll { $0 == peer.id }
    for id in peer.watched { watchers[id]?.removeAll { $0 == peer.id } }
    for id in peer.watched where watchers[id]?.isEmpty == true { watchers[id] = nil }
    effects += core.handle(.peerLeft(peer.id), at: now)
  }

  // MARK: Out

  func say(_ notification: DaemonNotification, to id: PeerID) {
    guard let peer = peers[id], peer.hasSaidHello || notification.name == .goodbye else { return }
    send(WireCoding.line(notification), to: peer, isHeld: isAhead(notification))
  }

  private func send(_ line: [UInt8], to peer: Peer, isHeld: Bool) {
    if isHeld { hold(line, to: peer) } else { peer.send(line) }
    flushLater(peer)
  }

  func flushLater(_ peer: Peer) {
    guard !peer.isUnflushed else { return }
    peer.isUnflushed = true
    unflushed.append(peer.id)
  }

  /// Sends what gathered in this turn, one system call a peer.
  func flushPeers() {
    guard !unflushed.isEmpty else { return }
    let ids = unflushed
    unflushed.removeAll(keepingCapacity: true)
    var effects: [Effect] = []
    for id in ids {
      guard let peer = peers[id] else { continue }
      peer.isUnflushed = false
      let isWhole = peer.flush()
      let isStuck = peer.unsentBytes > WireLimits.unsentBytes
      if isStuck {
        log.write(.warning, "\(peer.client) (process \(peer.processID)) does not read; its connection ends.")
      }
      // One that is to go gets what its socket takes when nothing is held, and no more of our time.
      if !isWhole || isStuck || peer.isClosing && peer.heldBytes == 0 {
        drop(peer, Self.readClock(randomWord: random.next()), &effects)
        continue
      }
      // What cannot be taken in now would keep the loop awake.
      var interest: EventLoop.Interest = peer.isClosing || isFull(peer) ? [] : .readable
      if peer.sendableBytes > 0 { interest.insert(.writable) }
      if interest != peer.interest, let registration = peer.registration {
        peer.interest = interest
        try? loop.modify(registration, interest: interest)
      }
      if peer.unsentBytes < Self.clientBacklog { unpauseTransfers(for: id) }
    }
    if !effects.isEmpty {
      commit()
      perform(effects)
      // What they say is sent in the next turn.
      if !unflushed.isEmpty { hasBacklog = true }
    }
  }

  /// Body bytes of a data task go to the session's client, behind what this turn says of the task; one that reads
  /// slowly makes the server wait.
  func passOn(_ bytes: [UInt8], of attempt: AttemptID) {
    guard let id = core.taskOnWire(attempt), let session = core.tasks[id]?.entry.session,
      let client = core.sessions[session]?.attached
    else { return }
    clientBytes.append((client, attempt, TaskBytesNotice(id: id.rawValue, bytes: WireCoding.base64(bytes))))
  }

  func passOnGathered() {
    for (client, attempt, notice) in clientBytes {
      say(.taskData(notice), to: client)
      if let peer = peers[client], peer.unsentBytes > Self.clientBacklog, pausedForClient[attempt] == nil {
        pausedForClient[attempt] = client
        engine.pause(attempt)
      }
    }
    clientBytes.removeAll(keepingCapacity: true)
  }

  private func unpauseTransfers(for client: PeerID) {
    guard !pausedForClient.isEmpty else { return }
    for (attempt, peer) in pausedForClient where peer == client {
      pausedForClient[attempt] = nil
      engine.unpause(attempt)
    }
  }

  // MARK: In

  func take(_ line: ArraySlice<UInt8>, from peer: Peer, _ now: ClockReading, _ effects: inout [Effect]) {
    do throws(WireCoding.RejectedRequest) {
      let incoming = try WireCoding.decodeRequest(line)
      let answerTo = peer.expectAnswer(to: incoming.id)
      do throws(WireError) {
        try take(incoming.request, answerTo, from: peer, now, &effects)
      } catch {
        respond(to: answerTo, error)
      }
    } catch {
      send(WireCoding.line(id: error.id, error: error.error), to: peer, isHeld: false)
      // A line that is no message at all leaves nothing to go on with; a wrong request is only answered.
      if error.error.name == .parseError {
        say(.goodbye(GoodbyeNotice(reason: error.error.message)), to: peer.id)
        log.write(.warning, "Ending the connection of \(peer.client) (process \(peer.processID)): garbage.")
        peer.isClosing = true
      }
    }
  }

  private func take(
    _ request: ClientRequest, _ token: RequestToken, from peer: Peer, _ now: ClockReading, _ effects: inout [Effect]
  ) throws(WireError) {
    if case .hello(let parameters) = request { return try greet(parameters, token, peer) }
    guard peer.hasSaidHello else { throw WireError(.invalidRequest, "The first request must be \"hello\".") }
    func command(_ command: Command) { effects += core.handle(.commanded(command, token), at: now) }
    switch request {
    case .hello: break
    case .sessionOpen(let parameters):
      let key = try RequestIntake.sessionKey(parameters)
      let network = try RequestIntake.network(parameters.network)
      if parameters.attach { noteProcess(of: peer, app: key.app, now, &effects) }
      command(
        .openSession(
          key, attach: parameters.attach, collectsResults: parameters.collectsResults, network: network,
          sendsLaunchEvents: parameters.sendsLaunchEvents ?? true, revives: parameters.revives ?? false,
          answersChallenges: parameters.answersChallenges ?? false))
      if parameters.attach { peer.wantsMetrics = parameters.wantsMetrics ?? false }
    case .sessionClose(let parameters): command(.closeSession(SessionID(rawValue: parameters.session)))
    case .sessionInvalidate(let parameters):
      command(.invalidateSession(SessionID(rawValue: parameters.session), cancel: parameters.cancel))
    case .taskEnqueue(let parameters): try enqueue(parameters, token, now, &effects)
    case .taskResume(let parameters): command(.resume(try ids(parameters.ids)))
    case .taskSuspend(let parameters): command(.suspend(try ids(parameters.ids)))
    case .taskCancel(let parameters):
      command(.cancel(try ids(parameters.ids), producesResumeData: parameters.producesResumeData ?? false))
    case .taskRemove(let parameters): command(.remove(try ids(parameters.ids)))
    case .taskUpdate(let parameters):
      command(.update(TaskID(rawValue: parameters.id), try RequestIntake.change(parameters)))
    case .taskAnswer(let parameters):
      command(
        .answer(
          TaskID(rawValue: parameters.id), question: parameters.question, try RequestIntake.answer(parameters)))
    case .deliveryAcknowledge(let parameters):
      command(
        .acknowledge(
          SessionID(rawValue: parameters.session),
          try ids(parameters.numbers).map { DeliveryNumber(rawValue: $0.rawValue) }))
    case .taskList(let parameters): list(parameters, token)
    case .taskShow(let parameters): try show(parameters, token)
    case .taskWatch(let parameters): try watch(parameters, token, peer)
    case .conditionsShow: showConditions(token)
    case .conditionsSet(let parameters): try setConditions(parameters, token, now, &effects)
    case .conditionsClear(let parameters): try clearConditions(parameters, token, now, &effects)
    case .daemonStatus: status(token)
    case .daemonStop:
      respond(to: token, result: EmptyResult(), isHeld: false)
      log.write(.notice, "Stopping, as \(peer.client) (process \(peer.processID)) asked.")
      isStopping = true
    case .appRegister(let parameters): try take(.register(parameters), token, from: peer, now, &effects)
    case .appList: try take(.list, token, from: peer, now, &effects)
    case .appShow(let parameters): try take(.show(parameters), token, from: peer, now, &effects)
    case .appRemove(let parameters): try take(.remove(parameters), token, from: peer, now, &effects)
    case .appFront(let parameters): try take(.front(parameters), token, from: peer, now, &effects)
    case .appForceQuit(let parameters): try take(.forceQuit(parameters), token, from: peer, now, &effects)
    case .appAttach(let parameters): try take(.attach(parameters), token, from: peer, now, &effects)
    case .appState(let parameters): try take(.state(parameters), token, from: peer, now, &effects)
    case .appHandled(let parameters): try take(.handled(parameters), token, from: peer, now, &effects)
    case .daemonRestart: try restart(token, peer, now, &effects)
    }
  }

  private func ids(_ numbers: [Int64]) throws(WireError) -> [TaskID] {
    guard numbers.count <= Self.identifiers else {
      throw WireError(.invalidParameters, "At most \(Self.identifiers) ids in one request.")
    }
    return numbers.map { TaskID(rawValue: $0) }
  }

  private func greet(_ parameters: HelloParameters, _ token: RequestToken, _ peer: Peer) throws(WireError) {
    guard parameters.version == WireVersion.current else {
      throw WireError(
        .versionUnsupported,
        "The client speaks version \(parameters.version), this daemon version \(WireVersion.current); update the older."
      )
    }
    peer.hasSaidHello = true
    peer.client = String(decoding: parameters.client.utf8.prefix(128), as: UTF8.self)
    respond(
      to: token,
      result: HelloResult(
        version: WireVersion.current, daemon: "ferryd/\(Self.version)", pid: getpid(), capabilities: []),
      isHeld: false)
  }

  private func enqueue(
    _ parameters: TaskEnqueueParameters, _ token: RequestToken, _ now: ClockReading, _ effects: inout [Effect]
  ) throws(WireError) {
    guard !parameters.tasks.isEmpty, parameters.tasks.count <= WireLimits.tasksInBatch else {
      throw WireError(.invalidParameters, "A batch has 1 to \(WireLimits.tasksInBatch) tasks.")
    }
    var drafts: [TaskDraft] = []
    drafts.reserveCapacity(parameters.tasks.count)
    for (index, specification) in parameters.tasks.enumerated() {
      do throws(WireError) {
        drafts.append(try RequestIntake.draft(specification, random: Clocks.randomWord))
      } catch {
        // A malformed task is a fault of the client's program: nothing of the batch is accepted.
        throw parameters.tasks.count == 1 ? error : WireError(error.name, "tasks[\(index)]: \(error.message)")
      }
    }
    effects += core.handle(.commanded(.enqueue(SessionID(rawValue: parameters.session), drafts), token), at: now)
  }

  // MARK: Questions

  private func list(_ parameters: TaskListParameters, _ token: RequestToken) {
    let limit = min(max(parameters.limit ?? WireLimits.tasksInPage, 1), WireLimits.tasksInPage)
    var ids: [TaskID] = []
    var last = TaskID(rawValue: max(0, parameters.after ?? 0))
    var next: Int64?
    while let cell = core.tasks.next(after: last) {
      if ids.count == limit {
        next = ids.last?.rawValue
        break
      }
      last = cell.entry.id
      if let session = parameters.session, session != cell.entry.session.rawValue { continue }
      if parameters.isUnfinishedOnly == true, cell.entry.state.isFinished { continue }
      ids.append(last)
    }
    snapshots(ids) { [unowned self] in respond(to: token, result: TaskListResult(tasks: $0, next: next)) }
  }

  private func show(_ parameters: TaskShowParameters, _ token: RequestToken) throws(WireError) {
    let id = TaskID(rawValue: parameters.id)
    guard core.tasks[id] != nil else { throw WireError(.taskUnknown, "There is no task \(parameters.id).") }
    snapshots([id], isFull: true) { [unowned self] snapshots in
      if let snapshot = snapshots.first {
        respond(to: token, result: TaskShowResult(task: snapshot))
      } else {
        respond(to: token, WireError(.taskUnknown, "There is no task \(id) any more."))
      }
    }
  }

  private func watch(_ parameters: TaskWatchParameters, _ token: RequestToken, _ peer: Peer) throws(WireError) {
    guard let numbers = parameters.ids else {
      if !watchersOfAll.contains(peer.id) { watchersOfAll.append(peer.id) }
      return respond(to: token, result: TaskIdentifiersResult(ids: [], unknown: []))
    }
    let ids = try ids(numbers)
    let known = ids.filter { core.tasks[$0] != nil }
    for id in known where watchers[id]?.contains(peer.id) != true {
      watchers[id, default: []].append(peer.id)
      peer.watched.append(id)
    }
    respond(
      to: token,
      result: TaskIdentifiersResult(
        ids: known.map(\.rawValue), unknown: ids.filter { core.tasks[$0] == nil }.map(\.rawValue)))
    // The present state follows the answer, so that nothing can happen unseen between a question and the watching.
    newWatches.append((peer.id, known))
  }

  /// Behind the effects of the turn; a state that is not on the disk yet is told with its commit.
  func tellPresentStates() {
    guard !newWatches.isEmpty else { return }
    let watches = newWatches
    newWatches.removeAll(keepingCapacity: true)
    for (peer, ids) in watches {
      snapshots(ids) { [unowned self] snapshots in
        for snapshot in snapshots where announcing[TaskID(rawValue: snapshot.id)] == nil {
          say(.taskState(TaskStateNotice(task: snapshot)), to: peer)
        }
      }
    }
  }

  private func status(_ token: RequestToken) {
    var counts: [String: Int64] = [:]
    core.tasks.census.forEach { counts[Snapshot.word($0)] = Int64($1) }
    var result = DaemonStatusResult(
      pid: getpid(), version: Self.version, stateDirectory: directories.state, socket: directories.socketPath,
      log: directories.state + "/ferryd.log",
      uptimeSeconds: (BootInstant.now() - startedAt).millisecondsClamped / 1000, tasks: counts,
      sessions: Int64(core.sessions.count), peers: Int64(peers.count), commits: commits, degraded: core.degraded,
      quarantined: quarantined, turnMicroseconds: turns.byBound)
    result.keptParts = Int64(core.keptPartCount)
    result.keptBytes = core.keptPartBytes
    result.isStuck = core.isStuck ? true : nil
    result.isRestarting = restartDue != nil ? true : nil
    respond(to: token, result: result)
  }

  // MARK: Answers

  /// An effect of the core: its commit is durable, but for a refusal, which waits for none.
  func answer(_ token: RequestToken, _ reply: Reply) {
    switch reply {
    case .sessionOpened(let id, let next, let isNew):
      respond(
        to: token, result: SessionOpenResult(session: id.rawValue, nextTaskNumber: next, isNew: isNew), isHeld: false)
    case .enqueued(let outcomes):
      respond(to: token, result: TaskEnqueueResult(tasks: outcomes.map(Self.receipt)), isHeld: false)
    case .identifiers(let reached, let unknown):
      respond(
        to: token,
        result: TaskIdentifiersResult(ids: reached.map(\.rawValue), unknown: unknown.map(\.rawValue)),
        isHeld: false)
    case .cancelled(let reached, let unknown, let kept):
      respond(
        to: token,
        result: TaskIdentifiersResult(
          ids: reached.map(\.rawValue), unknown: unknown.map(\.rawValue),
          kept: kept.map {
            WireKeptPart(id: $0.task.rawValue, resumeToken: $0.token.description, received: $0.received)
          }), isHeld: false)
    case .done, .noted: respond(to: token, result: EmptyResult(), isHeld: false)
    case .refused(let refusal): respond(to: token, refusal.wireError)
    }
  }

  private static func receipt(_ outcome: EnqueueOutcome) -> EnqueuedTask {
    switch outcome {
    case .accepted(let id, let number, let existed, let pin):
      EnqueuedTask(id: id.rawValue, number: number, existed: existed, pin: pin?.rawValue)
    case .refused(let refusal): EnqueuedTask(error: refusal.wireError)
    }
  }

  /// - Parameter isHeld: false for what tells of no work, or of what is on the disk; else the answer waits until it is.
  func respond(to token: RequestToken, result: some Encodable & Sendable, isHeld: Bool = true) {
    guard let peer = peers[token.peer], let id = peer.takeAnswer(token) else { return }
    send(WireCoding.line(id: id, result: result), to: peer, isHeld: isHeld)
  }

  /// That a task does not exist, say, may be as new as any other state.
  func respond(to token: RequestToken, _ error: WireError) {
    guard let peer = peers[token.peer], let id = peer.takeAnswer(token) else { return }
    send(WireCoding.line(id: id, error: error), to: peer, isHeld: true)
  }
}

extension Refusal {
  var wireError: WireError { WireError(WireError.Name(rawValue: name.rawValue) ?? .internalError, message) }
}
