import Synchronization

/// A request body that the program hands over in pieces, or at once; from any thread.
package final class BodyFeed: Sendable {
  /// What a reader finds.
  enum Portion {
    case bytes(Int)
    /// More may come; `wake` is called then.
    case nothingYet
    case failed
  }

  fileprivate struct State {
    var pieces: [[UInt8]] = []
    var firstPiece = 0
    /// Bytes of the first piece that were read.
    var taken = 0
    var waiting = 0
    var hasEnded = false
    var hasFailed = false
    /// A byte was read.
    var wasRead = false
    /// All pieces are kept, so that the body can begin again.
    var isKept = false
    var wake: (@Sendable () -> Void)?
    var whenRoom: (@Sendable () -> Void)?
  }

  fileprivate let state: Mutex<State>

  /// A body that is whole, and can be sent again.
  package init(whole bytes: [UInt8]) {
    state = Mutex(State(pieces: bytes.isEmpty ? [] : [bytes], waiting: bytes.count, hasEnded: true, isKept: true))
  }

  /// A body that comes piece by piece.
  package init() { state = Mutex(State()) }

  /// Bytes that wait beyond which the program should wait for `whenRoom`.
  private static let roomBytes = 256 * 1024

  /// Hands a piece over. False: enough waits; `whenRoom` is called once when more is wanted, on any thread.
  package func offer(_ piece: [UInt8], whenRoom: @escaping @Sendable () -> Void) -> Bool {
    let (wake, hasRoom) = state.withLock { state -> ((@Sendable () -> Void)?, Bool) in
      if !piece.isEmpty { state.pieces.append(piece) }
      state.waiting += piece.count
      let hasRoom = state.waiting < Self.roomBytes
      if !hasRoom { state.whenRoom = whenRoom }
      return (state.takeWake(), hasRoom)
    }
    wake?()
    return hasRoom
  }

  /// No piece follows.
  package func finish() { end(failing: false) }

  /// The body cannot be read on.
  package func fail() { end(failing: true) }

  private func end(failing: Bool) {
    let wake = state.withLock { state in
      state.hasEnded = true
      state.hasFailed = failing
      return state.takeWake()
    }
    wake?()
  }

  /// `wake` is called, on any thread, when something follows on `nothingYet`.
  func read(into buffer: UnsafeMutableRawBufferPointer, wake: @escaping @Sendable () -> Void) -> Portion {
    let (portion, whenRoom) = state.withLock { state -> (Portion, (@Sendable () -> Void)?) in
      var count = 0
      while count < buffer.count, state.firstPiece < state.pieces.count {
        count += unsafe state.take(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
      }
      let hasRoom = state.waiting < Self.roomBytes / 2
      let whenRoom = hasRoom ? state.whenRoom : nil
      if hasRoom { state.whenRoom = nil }
      if count > 0 {
        state.wasRead = true
        return (.bytes(count), whenRoom)
      }
      if state.hasFailed { return (.failed, nil) }
      if state.hasEnded { return (.bytes(0), nil) }
      state.wake = wake
      return (.nothingYet, whenRoom)
    }
    whenRoom?()
    return portion
  }

  /// False: whoever reads it now gets it from its start.
  package var wasRead: Bool { state.withLock { $0.wasRead } }

  /// False for a body whose pieces are gone.
  package func rewind() -> Bool {
    state.withLock { state in
      guard state.isKept else { return false }
      state.firstPiece = 0
      state.taken = 0
      state.waiting = state.pieces.reduce(0) { $0 + $1.count }
      return true
    }
  }
}

extension BodyFeed.State {
  mutating func takeWake() -> (@Sendable () -> Void)? {
    defer { wake = nil }
    return wake
  }

  /// Copies what fits of the next piece.
  mutating func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    let start = taken
    let count = unsafe pieces[firstPiece].withUnsafeBytes { piece in
      let count = min(piece.count - start, buffer.count)
      // SAFETY: `count` bytes are left in the piece and fit into the buffer.
      unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: piece[start..<(start + count)]))
      return count
    }
    taken += count
    waiting -= count
    guard taken == pieces[firstPiece].count else { return count }
    taken = 0
    if isKept {
      firstPiece += 1
    } else {
      pieces.removeFirst()
    }
    return count
  }
}
