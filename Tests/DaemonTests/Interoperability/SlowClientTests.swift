import Glibc
import LinuxSystem
import Testing
import WireProtocol

/// Clients that send a byte at a time are served like others, and cost others nothing.
@Suite struct SlowClientTests {
  @Test func aByteAtATime() throws {
    let home = try DaemonHome()
    defer { home.end() }
    let daemon = try home.startForeground()
    let quick = try home.connect()
    let slow = try (0..<50).map { _ in try ProtocolClient(home, saysHello: false) }
    let line = [UInt8](WireCoding.encodeRequest(id: 1, .hello(HelloParameters(client: "slow/1"))))
    var longest = Duration.zero
    for byte in line {
      for client in slow { #expect(try client.send(raw: [byte])) }
      let start = ContinuousClock.now
      _ = try quick.status()
      longest = max(longest, .now - start)
    }
    // Not one of their bytes was enough, and then the last one was.
    for client in slow {
      let reply = try #require(
        try client.line(Deadline(seconds: generousSeconds), waitingFor: "the reply to a slow hello"))
      #expect(try WireCoding.decodeResult(HelloResult.self, reply).pid == daemon.processID)
    }
    #expect(longest < .seconds(2), "another client waited \(longest)")
    let kibibytes = ProcessFacts.privateKibibytes(daemon.processID)
    #expect(kibibytes < 100 << 10, "\(kibibytes) KiB")
  }
}
