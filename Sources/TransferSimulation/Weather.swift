import TransferCore

/// What the world does by itself: faults that no single step brings about.
extension Simulation {
  var isNetworkDown: Bool { now < networkDownUntil }

  func changeWeather() {
    guard !isCalm else { return }
    disk.isFull = now < diskFullUntil
    changeObjects()
    changeClocks()
    changeResources()
    changeDevice()
    changeFiles()
    changeProcesses()
    schedule(after: dice.nanoseconds(milliseconds: 50...3000)) { [unowned self] in changeWeather() }
  }

  private func changeObjects() {
    let index = dice.below(servers.objects.count)
    if strikes(.objectChanges, perMille: 80) { renew(index) }
    if strikes(.objectChangesTwice, perMille: 40) {
      renew(index)
      schedule(after: dice.nanoseconds(milliseconds: 10...9000)) { [unowned self] in renew(index) }
    }
  }

  private func renew(_ index: Int) {
    let isEncoded = strikes(.encodedBody, perMille: 300)
    servers.renew(index, at: now, &dice, isEncoded: isEncoded)
    trace("object \(index) is now version \(servers.objects[index].current)")
  }

  private func changeClocks() {
    if strikes(.wallJump, perMille: 20) {
      wallOffsetMilliseconds += Int64(dice.within(-86_400_000...86_400_000))
    }
    if strikes(.wallJumpYear, perMille: 5) {
      wallOffsetMilliseconds += (dice.below(2) == 0 ? 1 : -1) * 365 * 86_400_000
    }
    if strikes(.machineSuspend, perMille: 15) { suspendMachine(for: dice.nanoseconds(milliseconds: 1000...10_000_000)) }
  }

  private func changeResources() {
    if strikes(.networkDown, perMille: 15) {
      networkDownUntil = now + dice.nanoseconds(milliseconds: 500...120_000)
    }
    if strikes(.diskFull, perMille: 20) {
      diskFullUntil = now + dice.nanoseconds(milliseconds: 200...60_000)
      disk.isFull = true
    }
    if strikes(.storeFull, perMille: 15) || strikes(.storeError, perMille: 15) {
      storeFailsUntil = now + dice.nanoseconds(milliseconds: 100...8000)
    }
  }

  private func changeDevice() {
    if now >= deviceChangesAt, device != .unrestricted { setDevice(.unrestricted) }
    var worse = device
    if strikes(.networkNone, perMille: 20) { worse.network = .none }
    if strikes(.networkMetered, perMille: 20) {
      worse.network = .available(isExpensive: true, isConstrained: dice.below(2) == 0)
    }
    if strikes(.externalPowerLost, perMille: 20) { worse.hasExternalPower = false }
    if strikes(.conditionsUnknown, perMille: 10) { worse.pending = .all }
    guard worse != device else { return }
    deviceChangesAt = now + dice.nanoseconds(milliseconds: 200...600_000)
    setDevice(worse)
  }

  private func setDevice(_ conditions: Conditions) {
    coverage.note(conditions.satisfied.isSuperset(of: device.satisfied) ? .conditionsGood : .conditionsBad)
    device = conditions
    trace("the device meets \(conditions.satisfied.names)")
    daemon?.wake()
  }

  private func changeFiles() {
    let waiting = store.entries.keys.sorted().filter { store.entries[$0]?.state.isFinished == false }
    guard !waiting.isEmpty else { return }
    let id = dice.pick(waiting)
    guard let plan = store.details[id]?.plan else { return }
    if case .file(let path, _) = plan.destination, disk.names[path] == nil,
      strikes(.destinationTaken, perMille: 60)
    {
      let inode = makeFile(path)
      inode.append(Span(version: Span.foreign, offset: 0, length: 5))
      inode.sync(through: 5)
      disk.syncNames()
    }
    if let source = plan.source, strikes(.sourceChanged, perMille: 60) {
      disk.names[source.path]?.modified += 1
    }
    if strikes(.unreadableRow, perMille: 15) {
      store.unreadable.insert(id)
      // Nobody knows where such a task collects its bytes.
      disk.lostRemovals.insert(plan.partPath)
    }
  }

  private func changeProcesses() {
    for app in apps {
      if strikes(.appCrash, perMille: 15) {
        app.die()
        let isLong = strikes(.longAbsence, perMille: 300)
        schedule(after: dice.nanoseconds(milliseconds: isLong ? 30_000...1_500_000 : 50...30_000)) { app.launch() }
      }
      if strikes(.forceQuit, perMille: 4) { app.askForForceQuit() }
      if strikes(.disconnection, perMille: 15) { app.disconnect() }
    }
    if strikes(.daemonCrash, perMille: 25) { crashDaemon() }
    if strikes(.daemonRestart, perMille: 20) { daemon?.restartSoon() }
    if strikes(.reboot, perMille: 8) { reboot() }
  }

  // MARK: What the daemon's parts ask of the world

  @discardableResult
  func makeFile(_ path: String) -> Inode {
    let inode = disk.makeInode(at: now)
    disk.setName(path, inode, at: now)
    return inode
  }

  /// Where a part file, or what it was decoded to, stands at its destination already.
  func placedPath(_ part: String, _ destination: Destination) -> String? {
    guard case .file(let path, let collision) = destination else { return nil }
    for candidate in collision == .rename ? (0..<50).map({ $0 == 0 ? path : "\(path) (\($0))" }) : [path] {
      guard let inode = disk.names[candidate] else { return nil }
      if inode === disk.names[part] || inode === disk.names[part + ".decoded"] { return candidate }
    }
    return nil
  }

  func noteTouch(_ inode: Inode, _ task: TaskID) {
    guard disk.isPublished(inode), let path = disk.published[inode.number] else { return }
    tell(.touchedPublished(task, path: path))
  }

  func answer(_ request: IncomingRequest) -> Answer {
    let answer = servers.answer(request, &faults, &dice)
    trace("server answers \(answer.head.status) \(answer.body) to task \(request.order.task)")
    return answer
  }

  func storeFailure() -> String? {
    guard now < storeFailsUntil else { return nil }
    return dice.below(2) == 0 ? "the disk is full" : "the disk does not answer"
  }

  func commit(_ changes: [StoreChange]) {
    for change in changes {
      if bug == .ticketUsedTwice, case .removeKeptPart = change { continue }
      if let reason = store.apply(change) { tell(.rejected(reason)) }
    }
    if !changes.isEmpty { tell(.committed(changes)) }
  }

  /// The digest that content has, as the clients' digests are written.
  func digest(of content: Content) -> String {
    guard content.spans.count <= 1 else { return "spliced" }
    guard let span = content.spans.first else { return emptyDigest }
    let version = span.version
    guard version >= 0, span.offset == 0, span.length == servers.versions[Int(version)].length else { return "part" }
    return Servers.digest(of: version)
  }

  /// All empty contents are equal.
  var emptyDigest: String { "empty" }

  /// The planted faults that bend what a server said.
  func bend(_ head: ResponseHead) -> ResponseHead {
    var bent = head
    if bug == .partValidatorIgnored, head.status == 206 {
      bent.headers.remove("ETag")
      bent.headers.remove("Last-Modified")
    }
    if bug == .weakValidatorTrusted, let tag = head.headers["ETag"], tag.hasPrefix("W/") {
      bent.headers.set("ETag", to: String(tag.dropFirst(2)))
    }
    return bent
  }

  /// The planted faults that bend what a client asked.
  func bent(_ command: Command) -> Command {
    switch (bug, command) {
    case (.keyForgotten, .enqueue(let session, let drafts)):
      .enqueue(
        session,
        drafts.map { draft in
          var bent = draft
          bent.key = nil
          return bent
        })
    case (.acknowledgementForgotten, .acknowledge(let session, let numbers)):
      .acknowledge(session, numbers.filter { $0.rawValue % 3 != 0 })
    default: command
    }
  }
}
