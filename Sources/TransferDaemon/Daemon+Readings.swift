import Glibc
import LinuxSystem
package import TransferCore
import TransferStore

/// Tasks whose details the core asked for, on their way into batches.
package struct LoadQueue {
  private var ids: [TaskID] = []
  private var first = 0

  package init() {}

  package var isEmpty: Bool { first == ids.count }

  package mutating func append(_ id: TaskID) { ids.append(id) }

  /// So many at most: those that have waited longest and, as a half, the newest. Where a million are asked for at once
  /// (their deadlines have passed while the machine was off), what begins meanwhile does not wait for them all.
  package mutating func take(_ limit: Int) -> [TaskID] {
    guard ids.count - first > limit else {
      defer { self = LoadQueue() }
      return first == 0 ? ids : Array(ids[first...])
    }
    let newest = ids.suffix(limit / 2)
    ids.removeLast(limit / 2)
    let oldest = ids[first..<first + limit - limit / 2]
    first += limit - limit / 2
    defer {
      if first * 2 > ids.count {
        ids.removeFirst(first)
        first = 0
      }
    }
    return Array(oldest) + newest
  }
}

/// A question to the store that is on its way.
struct Reader {
  var ids: [TaskID]
  /// It waits until the store can be read; else it is told that there is nothing.
  var isPatient: Bool
  var body: ([(TaskID, DetailsReading)]) -> Void
}

/// Details that are not in memory. A store that cannot be read for now is no damaged row: what needs the details waits.
extension Daemon {
  /// Asks the store, behind all that was handed to it before.
  /// - Parameter patiently: the body is run only with what the store has; else also with nothing, where it cannot be
  ///   read.
  func read(_ ids: [TaskID], patiently: Bool, then body: @escaping ([(TaskID, DetailsReading)]) -> Void) {
    lastReader += 1
    readers[lastReader] = Reader(ids: ids, isPatient: patiently, body: body)
    ask(lastReader, ids)
  }

  private func ask(_ number: Int64, _ ids: [TaskID]) {
    store.read(ids) { [mailbox] reading in mailbox.post(.read(number, reading)) }
  }

  /// Behind the effects of the turn: what they say of a task is older than what is said with the reading.
  func passOnReadings() {
    guard !arrivedReadings.isEmpty else { return }
    let end = BootInstant.now() + Self.slice
    var taken = 0
    defer { arrivedReadings.removeFirst(taken) }
    for (number, reading) in arrivedReadings {
      guard taken == 0 || BootInstant.now() < end else {
        hasBacklog = true
        return
      }
      taken += 1
      guard let reader = readers[number] else { continue }
      switch reading {
      case .details(let details):
        readers[number] = nil
        reader.body(details)
      case .failed(let failure):
        noteReadFailure(failure)
        if reader.isPatient {
          unansweredReaders.append(number)
        } else {
          readers[number] = nil
          reader.body([])
        }
      }
    }
  }

  /// The core asked for these, and gets them when the store can be read.
  func loaded(_ reading: StoreThread.Reading, of ids: [TaskID], _ now: ClockReading, _ effects: inout [Effect]) {
    switch reading {
    case .details(let details):
      for (id, reading) in details {
        switch reading {
        case .details(let details): effects += core.handle(.detailsLoaded(id, details), at: now)
        case .missing: effects += core.handle(.detailsLoaded(id, nil), at: now)
        case .unreadable(let row):
          log.write(.error, "Task \(id) cannot be read and is set aside: \(row.reason)")
          effects += core.handle(.detailsLoaded(id, nil), at: now)
        }
      }
    case .failed(let failure):
      noteReadFailure(failure)
      unansweredLoads += ids
    }
  }

  private func noteReadFailure(_ failure: StoreError) {
    recover(from: failure)
    if retryReadsAt == nil { log.write(.error, "The state cannot be read: \(failure). It is tried again each second.") }
    retryReadsAt = BootInstant.now() + .seconds(1)
  }

  func retryReads(_ now: ClockReading) {
    guard let due = retryReadsAt, due <= now.boot else { return }
    retryReadsAt = nil
    for id in unansweredLoads { wantedLoads.append(id) }
    unansweredLoads.removeAll()
    for number in unansweredReaders { if let reader = readers[number] { ask(number, reader.ids) } }
    unansweredReaders.removeAll()
    submitNextBatch()
  }

  /// A damaged database is opened again, which rebuilds it from what can be read; the supervisor starts us at once.
  func recover(from failure: StoreError) {
    guard failure.kind == .corrupt else { return }
    log.write(.error, "The database is damaged: \(failure.message). Starting again from what can be read.")
    abort()
  }
}
