import FoundationEssentials
import Glibc
import LinuxSystem
import WireProtocol

/// One socket to the daemon: bytes of lines out, messages in.
///
/// SAFETY: unchecked because it belongs to one thread at a time: the one that opened it hands it to the connection's
/// thread, which is the only one to read. Others write to its descriptor under the connection's lock, through the
/// static function.
final class WireStream: @unchecked Sendable {
  private let descriptor: OwnedDescriptor
  var socket: Int32 { descriptor.raw }
  /// Messages that came and were not taken yet, in order.
  private(set) var inbox: [WireCoding.IncomingMessage] = []
  private var taken = 0
  /// Why nothing more will come; nil while the stream lives. Messages that came before are still in the inbox.
  private(set) var ending: String?

  private var received: [UInt8] = []
  private var scanned = 0
  private var chunk = [UInt8](repeating: 0, count: 64 * 1024)

  /// Takes a connected, non-blocking socket.
  init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = descriptor }

  func takeMessage() -> WireCoding.IncomingMessage? {
    guard taken < inbox.count else { return nil }
    let message = inbox[taken]
    taken += 1
    if taken == inbox.count {
      inbox.removeAll(keepingCapacity: true)
      taken = 0
    }
    return message
  }

  /// The reply to one request, wherever it stands in the inbox; the others stay, in their order.
  func takeReply(_ wanted: Int64) -> WireCoding.IncomingMessage? {
    for index in taken..<inbox.count {
      switch inbox[index] {
      case .result(let id, _) where id == wanted: return inbox.remove(at: index)
      case .failure(let id?, _) where id == wanted: return inbox.remove(at: index)
      case .result, .failure, .notification, .unknownNotification: continue
      }
    }
    return nil
  }

  struct Readiness {
    var isReadable = false
    var isWritable = false
    var isWoken = false
    var hasChildEnded = false
  }

  /// Waits for the socket, the wake descriptor, or the end of a child (a pidfd; -1: none). `limit` nil waits for ever.
  func wait(forRoom wantsRoom: Bool, wake: Int32, child: Int32 = -1, atMost limit: Duration?) -> Readiness {
    var entries = [
      pollfd(fd: socket, events: Int16(POLLIN | (wantsRoom ? POLLOUT : 0)), revents: 0),
      pollfd(fd: wake, events: Int16(POLLIN), revents: 0),
      // poll(2) passes over a negative descriptor.
      pollfd(fd: child, events: Int16(POLLIN), revents: 0),
    ]
    let ready = unsafe poll(&entries, 3, limit?.pollMilliseconds ?? -1)
    guard ready > 0 else { return Readiness() }
    let ended = Int16(POLLHUP | POLLERR | POLLNVAL)
    return Readiness(
      isReadable: entries[0].revents & (Int16(POLLIN) | ended) != 0,
      isWritable: entries[0].revents & Int16(POLLOUT) != 0,
      isWoken: entries[1].revents != 0,
      hasChildEnded: entries[2].revents != 0)
  }

  /// Reads what is there, at most a few chunks, and turns whole lines into messages.
  func receive() {
    for _ in 0..<16 where ending == nil {
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe recv(socket, $0.baseAddress, $0.count, 0) }
      if count > 0 {
        received.append(contentsOf: chunk[..<count])
        takeLines()
        if count < chunk.count { return }
      } else if count == 0 {
        ending = ending ?? "ferryd ended the connection"
      } else if errno == EAGAIN {
        return
      } else if errno != EINTR {
        ending = ending ?? "the connection to ferryd broke (errno \(errno))"
      }
    }
  }

  private func takeLines() {
    var start = 0
    while let newline = received[max(start, scanned)...].firstIndex(of: 0x0A) {
      if newline > start { take(line: received[start..<newline]) }
      start = newline + 1
      scanned = start
      if ending != nil { break }
    }
    received.removeFirst(start)
    scanned = received.count
    if received.count > WireLimits.messageBytes {
      ending = ending ?? "ferryd sent a message of more than \(WireLimits.messageBytes) bytes"
    }
  }

  private func take(line: ArraySlice<UInt8>) {
    do {
      let message = try WireCoding.decodeMessage(line)
      if case .unknownNotification = message { return }
      inbox.append(message)
      if case .notification(.goodbye(let notice)) = message { ending = "ferryd said: \(notice.reason)" }
    } catch {
      ending = error.message
    }
  }

  /// Sends the rest of a line from `offset` and returns the new offset; smaller than the line's length when there is no
  /// room. A broken connection counts as no room: the reading side finds out why.
  static func send(_ line: Data, from offset: Int, to socket: Int32) -> Int {
    var done = offset
    while done < line.count {
      let count = unsafe line.withUnsafeBytes { bytes in
        // SAFETY: done < count, so the pointer stays inside the buffer.
        unsafe Glibc.send(
          socket, bytes.baseAddress.map { unsafe $0 + done }, bytes.count - done, Int32(MSG_NOSIGNAL))
      }
      if count >= 0 {
        done += count
      } else if errno != EINTR {
        return done
      }
    }
    return done
  }

  /// Sends one request and waits for its reply; other messages stay in the inbox. Only when nobody else writes.
  /// `onWake` takes the wake and says whether to go on.
  func exchange(
    id: Int64, _ request: ClientRequest, deadline: SuspendingClock.Instant, wake: Int32, onWake: () -> Bool
  ) throws(ConnectionFailure) -> Data {
    let line = WireCoding.encodeRequest(id: id, request)
    var offset = 0
    while true {
      if let reply = takeReply(id) { return try Self.outcome(of: reply).get() }
      if let ending { throw .lost(ending) }
      if offset < line.count { offset = Self.send(line, from: offset, to: socket) }
      let left = SuspendingClock.now.duration(to: deadline)
      guard left > .zero else { throw .timedOut("ferryd did not answer \(request.name.rawValue) in time") }
      let ready = wait(forRoom: offset < line.count, wake: wake, atMost: left)
      if ready.isWoken, !onWake() { throw .closed }
      if ready.isReadable { receive() }
    }
  }

  static func outcome(of reply: WireCoding.IncomingMessage) -> Result<Data, ConnectionFailure> {
    switch reply {
    case .result(_, let line): .success(line)
    case .failure(_, let error): .failure(.refused(error))
    case .notification(let notification):
      .failure(.lost("a notification (\(notification.name.rawValue)) came in the place of a reply"))
    case .unknownNotification(let method):
      .failure(.lost("a notification (\(method)) came in the place of a reply"))
    }
  }
}

extension Duration {
  /// For poll(2), rounded up so that a wait never ends before its time.
  var pollMilliseconds: Int32 {
    let (seconds, attoseconds) = components
    if seconds >= 86_400 { return 86_400_000 }
    return Int32(max(0, seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000))
  }
}
