import Synchronization

/// Room of one filesystem that those who fill it leave to somebody else. May be asked on any thread.
package final class KeptRoom: Sendable {
  private let size: Int64
  private let isDoubled = Atomic(false)
  /// Written since the filesystem was asked; asking before each write would be a system call for each.
  private let unasked: Atomic<Int64>

  package init(bytes: Int64) {
    size = bytes
    unasked = Atomic(bytes)
  }

  /// So much stays free.
  package var bytes: Int64 { isDoubled.load(ordering: .relaxed) ? 2 * size : size }

  /// Leaves twice the room, or once again.
  package func double(_ isDoubled: Bool) { self.isDoubled.store(isDoubled, ordering: .relaxed) }

  /// Whether so many more bytes may be written to an open file. Counts them; at most an eighth of the room is written
  /// unasked.
  package func admits(_ count: Int, to descriptor: Int32) -> Bool {
    guard unasked.add(Int64(count), ordering: .relaxed).newValue > size / 8 else { return true }
    // One that does not say is left to refuse the write itself.
    guard let free = try? Files.freeBytes(descriptor: descriptor) else { return true }
    guard free - Int64(count) >= bytes else { return false }
    unasked.store(0, ordering: .relaxed)
    return true
  }
}
