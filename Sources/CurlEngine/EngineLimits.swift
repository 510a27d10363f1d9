/// Every bound of the engine, each with its reason.
enum EngineLimits {
  /// Of a server that is not trusted so many certificates are told, and so many bytes of them: chains have 2 to 4, of
  /// 1 to 2 KiB each, and they go into the record and through the socket with each telling of the question.
  static let shownCertificates = 8
  static let shownCertificateBytes = 32 << 10
  /// libcurl's receive buffer. Measured: below 64 KiB costs CPU, above 128 KiB gains nothing.
  static let receiveBufferBytes = 128 * 1024
  /// libcurl's send buffer, for the same reason.
  static let sendBufferBytes = 128 * 1024
  /// Header fields in one block: browsers stop near 256.
  static let headerFields = 256
  /// Bytes in one header block, its status line included: a head is kept in memory and in a row.
  static let headerBytes = 128 * 1024
  /// 1xx responses before the final one; all together have as many bytes as one header block. A server that tells every
  /// few seconds that it is still at work (102) comes nowhere near it.
  static let interimResponses = 1000
  /// A body that nobody wants is read up to here, because that is cheaper than a new connection.
  static let drainedBytes: Int64 = 64 * 1024
  /// … and no longer than this.
  static let drainTime: Duration = .seconds(2)
  /// Name look-up, TCP and TLS together.
  static let connectMilliseconds = 30_000
  /// Idle connections kept for reuse.
  static let idleConnections = 32
  /// An idle connection older than this may be half dead, so it is not used again.
  static let idleConnectionSeconds = 60
  /// With no transfer for so long, all idle connections are dropped.
  static let idleDropTime: Duration = .seconds(30)
  /// Threads that look names up at once: each one is a thread, and a dead resolver holds it for half a minute.
  static let nameLookups = 32
  /// How long a look-up that was given up is thought to hold its thread (glibc: 2 tries × 5 s × 3 servers).
  static let abandonedLookupTime: Duration = .seconds(30)
  /// Body bytes that are written by one call: what one read of the socket brings.
  static let gatheredBytes = 128 * 1024
  /// With so many bytes of a plain body to come they are spliced from the socket to the file (docs/decisions/0008). The
  /// connection is given up for it: a new one takes some four round trips to be as fast, which is to be less than a
  /// twentieth of what these bytes take at 1 Gbit/s.
  /// - Parameter roundTrip: the connection's, in microseconds; nil when it is not known.
  static func splicedBytes(roundTrip: Int?) -> Int64 {
    guard let roundTrip else { return splicedCeilingBytes }
    return max(splicedFloorBytes, min(Int64(roundTrip) * 10_000, splicedCeilingBytes))
  }
  /// With fewer the change costs what it saves: at 1 MiB nothing is gained.
  static let splicedFloorBytes: Int64 = 4 * 1024 * 1024
  /// Half a second at that speed: with more to come it is done on the longest ways, too.
  static let splicedCeilingBytes: Int64 = 64 * 1024 * 1024
  /// A part file is synced when so many bytes are new and the last sync is so long ago …
  static let syncBytes: Int64 = 4 * 1024 * 1024
  static let syncPause: Duration = .milliseconds(250)
  /// … or so many are new (half of what may be, so that the next half comes while the first is synced) …
  static let syncAtOnceBytes: Int64 = 24 * 1024 * 1024
  /// … or the oldest new byte is this old.
  static let syncTime: Duration = .seconds(2)
  /// With more unsynced bytes than this the transfer is paused: the disk is slower than the network. A quarter less
  /// than the 64 MiB that a reboot may cost, because a synced offset counts a commit later.
  static let unsyncedBytes: Int64 = 48 * 1024 * 1024
  /// The same with fewer bytes, down to the second bound, when the oldest of them is older than this: a reboot costs no
  /// more than half a second's worth of the link, or 8 MiB (docs/decisions/0005).
  static let unsyncedTime: Duration = .milliseconds(500)
  static let unsyncedFloorBytes: Int64 = 6 * 1024 * 1024
  /// With more bytes than this queued for a worker the transfer is paused.
  static let outstandingBytes: Int64 = 8 * 1024 * 1024
  /// With more bytes than this waiting for `drainEvents` a client's transfer is paused.
  static let undrainedBytes = 1024 * 1024
  /// How often the watchdog looks, at most.
  static let scanInterval: Duration = .seconds(1)
  /// Read ahead of an upload's source on a filesystem that can hang.
  static let readAheadBytes = 1024 * 1024
  /// Body bytes that may wait unsent in a socket: enough to keep the wire busy between two turns of the loop, little
  /// enough that what counts as sent has left.
  static let unsentBytes: Int32 = 128 * 1024
  /// Origins whose uploads go over HTTP/1.1; a process meets few of them.
  static let rememberedOrigins = 64
}
