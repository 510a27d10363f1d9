import TransferCore

/// A result is offered until it is acknowledged, and never after; in the order of its number; always with the same one.
final class DeliveryChecker: Checker {
  let name = "offered until acknowledged, in order, never after"
  private struct Key: Hashable {
    var session: SessionID
    var number: DeliveryNumber
  }
  private var acknowledged: Set<Key> = []
  private var asked: Set<Key> = []
  private var known: [Key: DeliveryRecord] = [:]
  private var lastOffered: [Int: DeliveryNumber] = [:]
  private var closings: [Int: Int] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .replied(let app, .openSession, .sessionOpened): lastOffered[app] = nil
    case .asked(let app, .closeSession): closings[app, default: 0] += 1
    case .asked(_, .acknowledge(let session, let numbers)):
      for number in numbers { asked.insert(Key(session: session, number: number)) }
    case .replied(_, .acknowledge(let session, let numbers), .done):
      for number in numbers {
        let key = Key(session: session, number: number)
        if world.store.deliveries[StoreImage.DeliveryKey(session: session, number: number)] != nil {
          return "result \(number) was acknowledged and answered, and is still stored"
        }
        acknowledged.insert(key)
      }
    case .offered(let app, _, let record, let view): return offered(app, record, view, world)
    case .committed(let changes):
      for case .removeDelivery(let session, let number) in changes
      where !asked.contains(Key(session: session, number: number)) {
        return "result \(number) of session \(session) was dropped before it was acknowledged"
      }
    case .settled:
      if let left = world.store.deliveries.values.sorted(by: { $0.number < $1.number }).first {
        return
          "result \(left.number) (\(left.kind) of \(left.task?.description ?? "none")) of session \(left.session) was "
          + "never offered, or never let go"
      }
    default: break
    }
    return nil
  }

  private func offered(_ app: Int, _ record: DeliveryRecord, _ view: TaskView?, _ world: Simulation) -> String? {
    let key = Key(session: record.session, number: record.number)
    if acknowledged.contains(key) { return "result \(record.number) came again after its acknowledgement was answered" }
    if let before = known.updateValue(record, forKey: key) {
      world.coverage.note(.offeredAgain)
      if before.kind != record.kind || before.task != record.task {
        return
          "number \(record.number) was \(before.kind) of \(before.task.map(\.description) ?? "none"), "
          + "and is now another"
      }
    }
    let isKnown = world.store.deliveries[StoreImage.DeliveryKey(session: record.session, number: record.number)] != nil
    if !isKnown, !asked.contains(key), record.task.map({ world.store.entries[$0] != nil }) ?? true {
      return "result \(record.number) was offered before its commit"
    }
    if let last = lastOffered[app], record.number <= last, closings[app, default: 0] > 0 {
      // What was on its way when the app closed its session may arrive when it has opened it again.
      closings[app, default: 0] -= 1
    } else if let last = lastOffered[app], record.number <= last {
      return "result \(record.number) was offered after \(last)"
    }
    lastOffered[app] = record.number
    if record.task != nil, view == nil, !asked.contains(key) { return "result \(record.number) came without its task" }
    return nil
  }
}

/// Nothing wrong is ever delivered: a file is one version of its object, whole.
final class ContentChecker: Checker {
  let name = "delivered content is one version, whole"

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .collected(let view, let path, let content):
      // Its retention may have passed between the offer and the look, which another checker judges.
      if content == nil, world.store.entries[view.entry.id] == nil { return nil }
      guard let content else { return "the file of task \(view.entry.id), \(path), is not there" }
      return fault(content, view, world).map { "\(path) of task \(view.entry.id): \($0)" }
    case .received(let view, let content):
      return fault(content, view, world).map { "the bytes of data task \(view.entry.id): \($0)" }
    default: return nil
    }
  }

  private func fault(_ content: Content, _ view: TaskView, _ world: Simulation) -> String? {
    guard let plan = view.plan, let progress = view.progress else { return nil }
    guard content.spans.count <= 1 else { return "spliced of \(content.spans)" }
    let object = world.servers.object(at: plan.request.url)
    // Another task may have replaced it since, with another object.
    let isShared = progress.filePath?.contains("shared") == true
    guard let span = content.spans.first else {
      let couldBeEmpty =
        !progress.isLengthVerified
        || world.servers.versions.contains {
          $0.length == 0 && (isShared || $0.object == object || $0.kind == .page)
        }
      return couldBeEmpty && (isShared || plan.expectedSHA256 == nil) ? nil : "empty"
    }
    guard span.version >= 0 else { return "holds what no server sent: \(span)" }
    let version = world.servers.versions[Int(span.version)]
    if span.offset != 0 { return "begins at byte \(span.offset)" }
    let isPrefix = !progress.isLengthVerified && span.length < version.length
    if isPrefix { world.coverage.note(.lengthUnverified) }
    if span.length != version.length, !isPrefix { return "has \(span.length) of \(version.length) bytes" }
    if version.kind == .object, version.object != object, !isShared { return "is of object \(version.object)" }
    let mustBeDecoded = version.isEncoded && !plan.keepsEncoding && plan.kind != .data
    if span.isDecoded != mustBeDecoded, !isShared {
      return mustBeDecoded ? "is still encoded" : "was decoded against the wish"
    }
    if let digest = plan.expectedSHA256, digest != Servers.digest(of: span.version), !isShared {
      return "is version \(span.version), not the one whose digest was given"
    }
    return nil
  }
}

/// What stands under a published name is never written to again.
final class PublishedFileChecker: Checker {
  let name = "a published file is not touched"

  func take(_ fact: Fact, in world: Simulation) -> String? {
    guard case .touchedPublished(let id, let path) = fact else { return nil }
    return "task \(id) writes into \(path), which is visible already"
  }
}

/// When all is over, no file is left that belongs to nobody.
final class OrphanChecker: Checker {
  let name = "nothing orphaned"
  private var placed: Set<String> = []
  /// How many bytes attempts had that ended well although no length was known: less than all of a version, and whole as
  /// far as anybody can tell.
  private var wholeUnverified: Set<Int64> = []

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .asked(_, .remove(let ids)):
      // Removed in the moment in which it is placed: the file stays.
      for id in ids {
        if case .file(let path, _)? = world.store.details[id]?.plan.destination { placed.insert(path) }
      }
    case .committed(let changes):
      for case .updateTask(_, .some(let progress)) in changes {
        if let path = progress.filePath { placed.insert(path) }
      }
    case .left(_, _, .complete(let summary), _) where !summary.isLengthVerified:
      wholeUnverified.insert(summary.held)
    case .settled(true):
      for path in world.disk.names.keys.sorted() {
        if let text = judge(path, world) { return text }
      }
    default: break
    }
    return nil
  }

  private func isWhole(_ content: Content, _ world: Simulation) -> Bool {
    guard content.spans.count <= 1 else { return false }
    guard let span = content.spans.first else { return true }
    guard span.version >= 0, span.offset == 0 else { return false }
    return span.length == world.servers.versions[Int(span.version)].length || wholeUnverified.contains(span.length)
  }

  /// "name (1)" beside a "name" that is not a stranger's. Files called "shared" are the wish of more than one task.
  private func isSecondCopy(_ path: String, _ world: Simulation) -> Bool {
    guard path.hasSuffix(")"), !path.contains("/shared-") else { return false }
    let name = path.prefix { $0 != "(" }.dropLast()
    return world.disk.names[String(name)]?.content.spans.first?.version != Span.foreign
  }

  private func judge(_ path: String, _ world: Simulation) -> String? {
    guard let inode = world.disk.names[path] else { return nil }
    // Resume data may still be used. What a dead daemon had begun to decode beside it goes with it.
    if world.store.keptParts.values.contains(where: { $0.partPath == path || $0.partPath + ".decoded" == path }) {
      world.coverage.note(.partKept)
      return nil
    }
    if path.hasPrefix(Places.home) {
      let isHidden = path.hasPrefix("\(Places.home)/.ferry-")
      if !isHidden {
        if path.hasPrefix("\(Places.home)/src-") || placed.contains(path) { return nil }
        if inode.content.spans.first?.version == Span.foreign { return nil }
        // A daemon that died between placing and recording, and a task that ended otherwise before it was tried again,
        // leave a whole file. A second copy of one is a fault all the same.
        if isWhole(inode.content, world), !isSecondCopy(path, world) {
          world.coverage.note(.placedAndUntold)
          return nil
        }
        return "\(path) was placed and nobody was told"
      }
      // Its removal was on its way when the daemon died, or undone by the reboot: in a folder of the user's nobody
      // looks for it any more.
      if world.disk.lostRemovals.contains(path) || world.disk.lostRemovals.contains(String(path.dropLast(8))) {
        world.coverage.note(.partLeftBehind)
        return nil
      }
    }
    return "\(path) is left"
  }
}
