import TransferCore

extension SimulatedApp {
  /// A random task.
  func makeDraft(_ key: String) -> TaskDraft {
    let object = world.dice.below(world.servers.objects.count)
    let kind: TaskKind =
      switch world.dice.below(20) {
      case 0...12: .download
      case 13...17: .upload
      default: collects ? .data : .download
      }
    var request = TransferRequest(url: world.servers.objects[object].url)
    if world.dice.below(3) == 0 { request.headers.set("Authorization", to: "Bearer secret") }
    switch kind {
    case .upload: request.method = world.dice.pick(["PUT", "POST", "POST"])
    case .download, .data: if world.dice.below(15) == 0 { request.method = "POST" }
    }
    if request.method == "POST", world.dice.below(3) == 0 { request.headers.set("Idempotency-Key", to: "\"\(key)\"") }
    let origin = Origin(url: request.url)?.description ?? request.url
    var draft = TaskDraft(kind: kind, request: request, origin: origin)
    draft.key = key
    draft.statusRule = world.dice.pick([.successOnly, .successOnly, .any])
    draft.keepsEncoding = world.dice.below(6) == 0
    draft.requestTimeout = .seconds(world.dice.pick([8, 60]))
    draft.resourceTimeout = .seconds(world.dice.pick([900, 604_800, 604_800, 604_800]))
    draft.priority = UInt8(world.dice.pick([10, 128, 128, 250]))
    draft.isDiscretionary = world.dice.below(6) == 0
    draft.isSuspended = world.dice.below(8) == 0
    if world.dice.below(8) == 0 {
      draft.constraints = world.dice.pick([.unmetered, .unconstrained, .externalPower, [.unmetered, .externalPower]])
    }
    if world.dice.below(8) == 0 {
      draft.earliestBegin = world.wall + .milliseconds(world.dice.within(-10_000...120_000))
    }
    draft.asksBeforeBegin = collects && world.dice.below(2) == 0
    addFiles(key, object, &draft)
    return draft
  }

  private func addFiles(_ key: String, _ object: Int, _ draft: inout TaskDraft) {
    if draft.kind == .upload {
      let path = "\(Places.home)/src-\(key)"
      let source = world.makeFile(path)
      let length = Int64(world.dice.pick([0, 1, 60, 300]))
      source.append(Span(version: Span.foreign, offset: 0, length: length))
      source.sync(through: length)
      world.disk.syncNames()
      draft.sourcePath = path
    }
    guard draft.kind == .download, draft.request.method == "GET" else { return }
    if !collects || world.dice.below(3) == 0 {
      let name = world.dice.below(8) == 0 ? "shared-\(world.dice.below(2))" : "file-\(key)"
      draft.destination = .file(
        path: "\(Places.home)/\(name)", collision: world.dice.pick([.fail, .replace, .rename]))
    }
    let version = world.servers.objects[object].current
    if world.dice.below(5) == 0, world.servers.versions[Int(version)].length > 0 {
      draft.expectedSHA256 = Servers.digest(of: version)
    }
  }
}
