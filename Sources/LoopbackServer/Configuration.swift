extension LocalServer {
  /// How a server is set up. Every bound has a default that suits tests.
  public struct Configuration: Sendable {
    /// The port on 127.0.0.1; 0 lets the kernel choose a free one.
    public var port: UInt16 = 0
    /// Whether the server listens on `[::1]` too, on the same port.
    public var listensOnIPv6 = false
    /// Connections served at a time; more get a 503 at once. Each one is a thread.
    public var connectionLimit = 1024
    /// How long the request line and the header fields may be together; a longer head gets a 431.
    public var headByteLimit = 64 * 1024
    /// How much of a request's body is kept in ``Request/body``; the rest only counts and goes into its digest.
    public var recordedBodyByteLimit = 1024 * 1024
    /// How many requests and exchanges are kept, the first ones; later ones only count.
    public var recordedRequestLimit = 100_000
    /// The kernel's send buffer of each connection (SO_SNDBUF; the kernel doubles it); nil leaves it to the kernel.
    /// Small ones make "sent" mean nearly "received".
    public var sendBufferByteCount: Int?
    /// The kernel's receive buffer of each connection (SO_RCVBUF; the kernel doubles it); nil leaves it to the kernel.
    /// Small ones let a client feel a throttled or stalled reader at once.
    public var receiveBufferByteCount: Int?
    /// Called on the connection's thread when an exchange has ended: for a log.
    public var onExchange: (@Sendable (Exchange) -> Void)?

    /// The defaults.
    public init() {}
  }
}
