import CurlEngine
import Glibc
import LoopbackServer
import Testing
import TransferCore

extension EngineTests {
  /// What is measured is what happened.
  @Suite struct Metrics {
    private func spans(_ metrics: TransactionMetrics) -> [Int64] {
      [
        metrics.domainLookupStart, metrics.domainLookupEnd, metrics.connectStart, metrics.secureConnectionStart,
        metrics.secureConnectionEnd, metrics.connectEnd, metrics.requestStart, metrics.requestEnd,
        metrics.responseStart, metrics.responseEnd,
      ].compactMap { $0 }
    }

    @Test func aNewConnectionAndAUsedOne() throws {
      let server = try LocalServer.start { _ in .generated(length: 50_000) }
      defer { server.stop() }
      let rig = try EngineRig()
      let before = time(nil)
      let first = try #require(rig.run(rig.order(server.url("/a")), part: rig.part()).facts?.metrics)
      #expect(first.url == server.url("/a") && first.method == "GET" && first.status == 200)
      #expect(first.networkProtocol == "http/1.1")
      #expect(first.fetchStart / 1_000_000 >= Int64(before) && first.fetchStart / 1_000_000 <= Int64(time(nil)))
      #expect(!first.isReused && !first.isProxied)
      #expect(first.connectStart != nil && first.connectEnd != nil && first.secureConnectionStart == nil)
      #expect(first.remoteAddress == "127.0.0.1" && first.remotePort == Int(server.port))
      #expect(first.localAddress == "127.0.0.1" && (first.localPort ?? 0) > 0)
      #expect(first.tlsVersion == nil && first.tlsCipherSuite == nil)
      #expect(first.requestHeaderBytes > 50 && first.requestBodyBytes == 0)
      #expect(first.responseHeaderBytes > 20 && first.responseBodyBytes == 50_000)
      #expect(spans(first) == spans(first).sorted() && (first.responseEnd ?? 0) > 0)
      let second = try #require(rig.run(rig.order(server.url("/b")), part: rig.part()).facts?.metrics)
      #expect(second.isReused)
      #expect(second.domainLookupStart == nil && second.connectStart == nil && second.connectEnd == nil)
      #expect(second.localPort == first.localPort)
      #expect(spans(second) == spans(second).sorted())
    }

    @Test func theBodyOfAnUploadTakesItsTime() throws {
      let server = try LocalServer.start { _ in .status(201) }
      defer { server.stop() }
      let rig = try EngineRig()
      let (source, body) = rig.source([UInt8](repeating: 7, count: 3_000_000))
      let outcome = rig.run(
        rig.order(server.url("/up"), method: "PUT", body: .file(source)), part: rig.part(), body: body)
      let metrics = try #require(outcome.facts?.metrics)
      #expect(metrics.requestBodyBytes == 3_000_000)
      let began = try #require(metrics.requestStart)
      let ended = try #require(metrics.requestEnd)
      #expect(ended > began)
    }

    @Test func whatFailsIsMeasuredAsFarAsItCame() throws {
      let server = try LocalServer.start { _ in .generated(length: 50_000).cut(afterBytes: 10_000) }
      let port = server.port
      let rig = try EngineRig()
      let cut = try #require(rig.run(rig.order(server.url("/a")), part: rig.part()).facts?.metrics)
      #expect(cut.status == 200 && cut.responseBodyBytes == 10_000 && cut.responseEnd != nil)
      server.stop()
      let refused = try #require(
        rig.run(rig.order("http://127.0.0.1:\(port)/", fresh: true), part: rig.part()).facts?.metrics)
      #expect(refused.status == nil && refused.requestStart == nil && refused.networkProtocol == nil)
      #expect(refused.responseStart == nil && !refused.isReused)
    }

    @Test func whoGoesThroughAProxy() {
      let network = NetworkSettings(httpProxy: "http://p:1", httpsProxy: nil, noProxy: "localhost, .example.org")
      for (url, isProxied) in [
        ("http://a.test/", true), ("https://a.test/", false), ("http://localhost/", false),
        ("http://example.org/", false), ("http://www.example.org/", false), ("http://badexample.org/", true),
      ] { #expect(ProxyRule.applies(network, to: url) == isProxied, "\(url)") }
    }

    @Test(.enabled(if: Nginx.path != nil)) func theHandshakeIsApart() throws {
      let nginx = try Nginx(files: ["small": [1, 2, 3]])
      let (rig, network) = try UnderTLS.rig(nginx)
      let outcome = rig.run(rig.order(nginx.url + "/small", network: network, fresh: true), part: rig.part())
      let metrics = try #require(outcome.facts?.metrics)
      #expect(metrics.networkProtocol == "h2")
      #expect([0x0303, 0x0304].contains(metrics.tlsVersion) && (metrics.tlsCipherSuite ?? 0) > 0)
      let handshake = try #require(metrics.secureConnectionStart)
      #expect(metrics.secureConnectionEnd == metrics.connectEnd)
      let secured = try #require(metrics.secureConnectionEnd)
      #expect(secured > handshake)
      #expect(spans(metrics) == spans(metrics).sorted())
    }
  }
}
