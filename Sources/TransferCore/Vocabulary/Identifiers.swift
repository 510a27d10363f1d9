/// A number that names one thing for ever: it is never used again, also after the thing was removed.
package protocol DurableIdentifier: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible
where RawValue == Int64 {
  init(rawValue: Int64)
}

extension DurableIdentifier {
  package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
  package var description: String { "\(rawValue)" }

  /// For tables: these numbers are counted by us, so that nobody can choose ones that collide, and the general hash,
  /// which is made against that, was a twentieth of what the loop did for a small file.
  package func _rawHashValue(seed: Int) -> Int {
    let mixed = UInt64(bitPattern: rawValue ^ Int64(seed)) &* 0x9E37_79B9_7F4A_7C15
    return Int(truncatingIfNeeded: mixed ^ (mixed >> 32))
  }
}

/// The daemon-wide number of a task, counted from 1; what `ferry list` shows.
package struct TaskID: DurableIdentifier {
  package var rawValue: Int64
  package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// The daemon-wide number of a session, counted from 1.
package struct SessionID: DurableIdentifier {
  package var rawValue: Int64
  package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// One try on the wire, counted from 1 in each life of the daemon. It is not stored: no attempt outlives the daemon.
package struct AttemptID: DurableIdentifier {
  package var rawValue: Int64
  package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// One connected client, counted from 1 in each life of the daemon.
package struct PeerID: DurableIdentifier {
  package var rawValue: Int64
  package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// The place of a result in its session's queue, counted from 1 within the session.
package struct DeliveryNumber: DurableIdentifier {
  package var rawValue: Int64
  package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// Names one request of one client, so that its reply finds the way back. Opaque to the core.
package struct RequestToken: Hashable, Sendable {
  package var peer: PeerID
  package var sequence: Int64
  package init(peer: PeerID, sequence: Int64) {
    self.peer = peer
    self.sequence = sequence
  }
}
