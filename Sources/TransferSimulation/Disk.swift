import TransferCore

/// Where a byte came from: so that a splice of two versions, a hole or a shift is seen.
struct Span: Hashable {
  /// Index of the version in ``Servers``; -1: zeros that nobody wrote, -2: somebody else's bytes.
  var version: Int32
  var isDecoded = false
  /// Of the first byte, within the version.
  var offset: Int64
  var length: Int64

  static let zeros: Int32 = -1
  static let foreign: Int32 = -2
}

/// The bytes of a file, as the fewest spans.
struct Content: Hashable {
  private(set) var spans: [Span] = []
  private(set) var length: Int64 = 0

  mutating func append(_ span: Span) {
    guard span.length > 0 else { return }
    length += span.length
    if let last = spans.last, last.version == span.version, last.isDecoded == span.isDecoded,
      last.offset + last.length == span.offset
    {
      spans[spans.count - 1].length += span.length
    } else {
      spans.append(span)
    }
  }

  func prefix(_ count: Int64) -> Content {
    var cut = Content()
    for span in spans {
      let room = count - cut.length
      guard room > 0 else { break }
      var piece = span
      piece.length = min(piece.length, room)
      cut.append(piece)
    }
    return cut
  }
}

/// A file's bytes under any number of names.
final class Inode {
  let number: Int
  var content = Content()
  /// What a reboot surely finds.
  var durable = Content()
  /// Bytes from the start that are durable and were not cut since.
  var stableLength: Int64 = 0
  var modified: Int64

  init(number: Int, modified: Int64) {
    self.number = number
    self.modified = modified
  }

  func truncate(to length: Int64) {
    guard length < content.length else { return }
    content = content.prefix(length)
    stableLength = min(stableLength, length)
  }

  func append(_ span: Span) { content.append(span) }

  /// A sync that was asked for when the file had `length` bytes is through.
  func sync(through length: Int64) {
    durable = content.prefix(length)
    stableLength = durable.length
  }

  /// The page cache is gone. What was not synced is there, or not, or zeros.
  func loseCache(_ dice: inout Dice) {
    defer {
      durable = content
      stableLength = content.length
    }
    guard content != durable else { return }
    let unsynced = Int(clamping: content.length - stableLength)
    switch dice.below(4) {
    case 0: content = durable
    case 1: break
    case 2: content = content.prefix(stableLength + Int64(dice.below(unsynced + 1)))
    default:
      let kept = stableLength + Int64(dice.below(unsynced + 1))
      let lost = content.length - kept
      content = content.prefix(kept)
      content.append(Span(version: Span.zeros, offset: 0, length: lost))
    }
  }
}

/// One filesystem: names, inodes and a journal of names that a reboot may cut.
final class Disk {
  private(set) var names: [String: Inode] = [:]
  private var lastInode = 0
  /// Changes of names that a reboot may undo, in order.
  private var journal: [(at: Int64, path: String, old: Inode?)] = []
  /// Names under which results were published: path → inode.
  private(set) var published: [Int: String] = [:]
  /// Paths whose removal was asked for and may not have happened, or was undone.
  var lostRemovals: Set<String> = []
  var isFull = false

  /// Changes of names older than this are on disk (ext4's commit interval).
  private static let commitInterval: Int64 = 5_000_000_000

  func makeInode(at now: Int64) -> Inode {
    lastInode += 1
    return Inode(number: lastInode, modified: now)
  }

  /// Gives a name to an inode, or takes it away (nil).
  func setName(_ path: String, _ inode: Inode?, at now: Int64) {
    if let first = journal.firstIndex(where: { $0.at > now - Self.commitInterval }) {
      if first > 0 { journal.removeFirst(first) }
    } else {
      journal.removeAll()
    }
    journal.append((now, path, names[path]))
    names[path] = inode
  }

  func publish(_ inode: Inode, as path: String, at now: Int64) {
    setName(path, inode, at: now)
    published[inode.number] = path
  }

  /// True when a published name shows what is written to this inode.
  func isPublished(_ inode: Inode) -> Bool {
    guard let path = published[inode.number] else { return false }
    return names[path] === inode
  }

  func syncNames() { journal.removeAll() }

  /// Names in a folder and below it, in order.
  func list(_ folder: String) -> [String] { names.keys.filter { $0.hasPrefix(folder + "/") }.sorted() }

  /// The machine started anew at `now`.
  func loseCache(_ dice: inout Dice, at now: Int64) {
    let recent = journal.firstIndex { $0.at > now - Self.commitInterval } ?? journal.count
    let kept = recent + dice.below(journal.count - recent + 1)
    while journal.count > kept {
      let change = journal.removeLast()
      if names[change.path] == nil { lostRemovals.insert(change.path) }
      names[change.path] = change.old
    }
    journal.removeAll()
    var seen: Set<Int> = []
    for path in names.keys.sorted() {
      guard let inode = names[path], seen.insert(inode.number).inserted else { continue }
      inode.loseCache(&dice)
    }
  }
}
