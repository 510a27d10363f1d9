import TransferCore

extension SimulatedDaemon {
  func carryOut(_ effect: Effect) {
    world.note(effect)
    if world.strikes(.crashInTick, perMille: 1) {
      noteLostRemoval(effect)
      return world.crashDaemon()
    }
    switch effect {
    case .reply(let token, let reply):
      if case .refused(let refusal) = reply, refusal.name == .sessionInUse { world.coverage.note(.sessionInUse) }
      peers[token.peer]?.send(.reply(token.sequence, reply))
    case .announce(let id, let announcement):
      dropBytesIfPlanted(id)
      announce(id, announcement)
      if announcement == .state { launchWithoutBatch(id) }
    case .offer(let peer, let record): offer(record, to: peer)
    case .ask(let peer, let id): ask(id, peer)
    case .endSession(let peer, let session):
      world.coverage.note(.sessionRetired)
      peers[peer]?.send(.sessionEnded(session))
    case .prepare(let token, let orders): prepare(token, orders)
    case .discardPreparation(let ids): removeFiles(ids.map { "\(Places.sources)/ferry-\($0).source" })
    case .loadDetails(let id): load(id)
    case .openFiles(let attempt, let order): openFiles(attempt, order)
    case .begin(let order, _):
      core.began(order.attempt)
      begin(order)
    case .releaseBody(let attempt): engine.releaseBody(attempt)
    case .stop(let attempt):
      opening.remove(attempt)
      opened[attempt] = nil
      engine.stop(attempt)
    case .finalize(let order): finalize(order)
    case .removeFiles(let paths): if world.bug != .filesLeaked { removeFiles(paths) }
    case .foreground: break
    case .app(let effect): carryOut(effect)
    }
  }

  private func ask(_ id: TaskID, _ peer: PeerID) {
    guard let cell = core.tasks[id], core.isStillMeant(.ask(peer, id)),
      let question = core.question(cell, core.residentDetails(id) ?? world.store.reading(id))
    else { return }
    world.coverage.note(question)
    peers[peer]?.send(.asked(id, question, core.questionNumber(cell)))
  }

  private func dropBytesIfPlanted(_ id: TaskID) {
    guard world.bug == .bytesDroppedWhileAsking, core.tasks[id]?.entry.state == .asking,
      let path = core.residentDetails(id)?.plan.partPath
    else { return }
    world.disk.names[path]?.truncate(to: 0)
  }

  // MARK: Preparation

  private func prepare(_ token: RequestToken, _ orders: [PrepareOrder]) {
    onNames(0...30) { daemon in
      daemon.post(.prepared(token, orders.map { PreparedTask(task: $0.task, outcome: daemon.look(at: $0)) }))
    }
  }

  private func look(at order: PrepareOrder) -> PreparedTask.Outcome {
    if case .file(let path, .fail) = order.destination, world.disk.names[path] != nil {
      return .refused(Refusal(.destinationExists, "\(path) exists."))
    }
    guard let path = order.sourcePath else { return .ready(source: nil, destination: order.destination) }
    guard let inode = world.disk.names[path] else { return .refused(Refusal(.sourceMissing, "There is no \(path).")) }
    let pinned = "\(Places.sources)/ferry-\(order.task).source"
    // A clone where the filesystem can, else a second name.
    let isClone = world.dice.below(2) == 0
    let pin = isClone ? world.disk.makeInode(at: inode.modified) : inode
    if isClone {
      pin.content = inode.content
      pin.sync(through: inode.content.length)
    }
    world.disk.setName(pinned, pin, at: world.now)
    let identity = FileIdentity(
      device: 1, inode: UInt64(pin.number), sizeBytes: pin.content.length, modifiedNanoseconds: pin.modified)
    let source = UploadSource(path: path, pinnedPath: pinned, pin: isClone ? .reflink : .hardLink, identity: identity)
    return .ready(source: source, destination: order.destination)
  }

  // MARK: Attempts

  private func openFiles(_ attempt: AttemptID, _ order: OpenOrder) {
    // It waited for its commit, and was ended meanwhile.
    guard core.taskOnWire(attempt) != nil else { return }
    opening.insert(attempt)
    onNames(0...15) { daemon in
      if daemon.world.strikes(.openError, perMille: 10) {
        let failure = TransferFailure(.destinationUnavailable, .transient, domain: "errno", number: 5, detail: "EIO.")
        return daemon.post(.opened(attempt, nil, failure))
      }
      var parts = OpenedParts(part: nil, source: nil, freeBytes: daemon.world.disk.isFull ? 3 : 1 << 40)
      if let path = order.partPath {
        parts.part = daemon.world.disk.names[path] ?? daemon.world.makeFile(path)
        parts.isPlaced = daemon.world.placedPath(path, order.destination) != nil
      }
      if let source = order.source {
        guard let inode = daemon.world.disk.names[source.pinnedPath] else {
          let failure = TransferFailure(.sourceMissing, .permanent, detail: "The source is gone.")
          return daemon.post(.opened(attempt, nil, failure))
        }
        parts.source = inode
      }
      daemon.post(.opened(attempt, parts, nil))
    }
  }

  func tookFiles(
    _ attempt: AttemptID, _ parts: OpenedParts?, _ failure: TransferFailure?, _ now: ClockReading,
    _ effects: inout [Effect]
  ) {
    guard opening.remove(attempt) != nil else { return }
    if let failure {
      effects += handle(.filesFailed(attempt, failure), now)
    } else if let parts {
      opened[attempt] = parts
      let sizes = OpenedFiles(
        partBytes: parts.part?.content.length, freeBytes: parts.freeBytes, isPlaced: parts.isPlaced)
      let follows = handle(.filesOpened(attempt, sizes), now)
      if case .finalize? = follows.last(where: { if case .finalize = $0 { true } else { false } }) {
        world.coverage.note(.wholeWithoutRequest)
      }
      effects += follows
    }
  }

  private func begin(_ order: AttemptOrder) {
    guard let parts = opened.removeValue(forKey: order.attempt) else { return }
    var order = order
    if world.bug == .ifRangeDropped { order.request.headers.remove("If-Range") }
    if world.bug == .secretFollowsRedirect, let plan = core.residentDetails(order.task)?.plan,
      let secret = plan.request.headers["Authorization"]
    {
      order.request.headers.set("Authorization", to: secret)
    }
    if world.bug == .credentialFollowsRedirect, order.credential == nil {
      order.credential = core.residentDetails(order.task)?.progress.access?.credential
    }
    if let resume = order.judgement.resume {
      world.coverage.note(resume.offset > 0 && isOfThisBoot(order.task) ? .resumedInSameBoot : .resumedAfterReboot)
    }
    world.tell(.began(order, core.tasks[order.task]?.entry))
    engine.start(order, part: parts.part, source: parts.source)
  }

  private func isOfThisBoot(_ id: TaskID) -> Bool {
    core.residentDetails(id)?.progress.bootID == core.configuration.bootID
  }

  func isDigestKnown(_ id: TaskID) -> Bool { core.residentDetails(id)?.plan.expectedSHA256 != nil }

  // MARK: Results

  private func finalize(_ order: FinalizeOrder) {
    let folder = Places.folder(of: order.partPath)
    finalizing[folder, default: []].append(order)
    startFinalizing(folder)
  }

  func startFinalizing(_ folder: String) {
    guard !busyFolders.contains(folder), let orders = finalizing.removeValue(forKey: folder) else { return }
    busyFolders.insert(folder)
    Finalization(orders, folder, self).run()
  }

  func removeFiles(_ paths: [String]) {
    for path in paths {
      removing.append(path)
      onNames(0...20) { daemon in
        for name in [path, path + ".decoded"] where daemon.world.disk.names[name] != nil {
          daemon.world.disk.setName(name, nil, at: daemon.world.now)
        }
        if let index = daemon.removing.firstIndex(of: path) { daemon.removing.remove(at: index) }
      }
    }
  }

  // MARK: Telling clients

  private func audience(of id: TaskID) -> [Connection] {
    guard let session = core.tasks[id]?.entry.session, let cell = core.sessions[session] else { return [] }
    var audience: [Connection] = []
    if let attached = cell.attached, let peer = peers[attached] { audience.append(peer) }
    // The command's clients watch without being attached.
    for app in world.apps where app.isWatching(cell.record.key) {
      if let peer = app.connection, peers[peer.peer] === peer, !audience.contains(where: { $0 === peer }) {
        audience.append(peer)
      }
    }
    return audience
  }

  private func announce(_ id: TaskID, _ announcement: Announcement) {
    let audience = audience(of: id)
    guard !audience.isEmpty else { return }
    switch announcement {
    case .progress: if let entry = core.tasks[id]?.entry { world.tell(.progressTold(entry)) }
    case .state:
      snapshot(id) { [unowned self] view in
        guard let view, announcing[id] == nil else { return }
        for peer in audience { peer.send(.announced(view)) }
      }
    case .resumed, .removed, .expiring: break
    case .response(let head): for peer in audience { peer.send(.response(id, head)) }
    }
  }

  func view(_ id: TaskID, _ details: TaskDetails?) -> TaskView? {
    guard let entry = core.tasks[id]?.entry else { return nil }
    return TaskView(entry: entry, progress: details?.progress, plan: details?.plan)
  }

  private func snapshot(_ id: TaskID, then body: @escaping (TaskView?) -> Void) {
    if let details = core.residentDetails(id) { return body(view(id, details)) }
    read([id]) { [unowned self] readings in
      body(view(id, core.residentDetails(id) ?? readings.first?.1))
    }
  }

  private func offer(_ record: DeliveryRecord, to peer: PeerID) {
    guard let connection = peers[peer] else { return }
    guard let id = record.task else {
      if offerReads == 0 { return connection.send(.offer(record, nil)) }
      offerReads += 1
      return read([]) { [unowned self] _ in
        offerReads -= 1
        guard core.sessions[record.session]?.deliveries.contains(record.number) == true else { return }
        connection.send(.offer(record, nil))
      }
    }
    if offerReads == 0, let details = core.residentDetails(id) {
      return connection.send(.offer(record, view(id, details)))
    }
    offerReads += 1
    read([id]) { [unowned self] readings in
      offerReads -= 1
      // It may have been acknowledged while its task was read.
      guard core.sessions[record.session]?.deliveries.contains(record.number) == true else { return }
      connection.send(.offer(record, view(id, core.residentDetails(id) ?? readings.first?.1)))
    }
  }

  /// Body bytes of a data task go to the session's client.
  func passOn(_ span: Span, of attempt: AttemptID) {
    guard let id = core.taskOnWire(attempt), let session = core.tasks[id]?.entry.session,
      let client = core.sessions[session]?.attached
    else { return }
    peers[client]?.send(.data(id, span))
  }
}
