import CurlEngine
import Testing
import TransferCore

extension EngineTests {
  @Suite struct Download {
    @Test func aWholeBodyReachesThePartFile() throws {
      let bytes = pattern(300_000)
      let server = ScriptedServer { peer in
        while peer.readHead() != nil {
          peer.send("HTTP/1.1 200 OK\r\nContent-Length: \(bytes.count)\r\nETag: \"a\"\r\n\r\n")
          peer.send(bytes)
        }
      }
      let rig = try EngineRig()
      let outcome = rig.run(rig.order("\(server.url)/file"), part: rig.part())
      #expect(outcome.end == .complete(TransferSummary(held: 300_000, isLengthVerified: true)))
      #expect(outcome.verdict == .takeWhole)
      #expect(outcome.head?.status == 200)
      #expect(outcome.head?.headers["etag"] == "\"a\"")
      #expect(outcome.isOrdered)
      #expect(outcome.held == 300_000)
      #expect(outcome.facts?.requestWasSent == true)
      let isSame1 = rig.content() == bytes
      #expect(isSame1)
    }

    @Test(arguments: ["PUT", "POST", "PATCH", "REPORT"])
    func anUploadCarriesItsMethodAndBody(method: String) throws {
      let bytes = pattern(200_000)
      let server = ScriptedServer { peer in
        guard let head = peer.readHead() else { return }
        let length = head.lowercased().contains("content-length: 200000")
        let body = peer.readBody(200_000)
        let isSame = body == bytes && length && head.hasPrefix("\(method) /up HTTP/1.1")
        let hasNoExtras = !head.lowercased().contains("expect") && !head.lowercased().contains("content-type")
        peer.send("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\n\(isSame && hasNoExtras ? "same" : "diff")")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let (source, body) = rig.source(bytes)
      let outcome = rig.run(
        rig.order("\(server.url)/up", method: method, body: .file(source), fresh: true), part: rig.part(), body: body)
      #expect(outcome.end == .complete(TransferSummary(held: 4, isLengthVerified: true)))
      #expect(String(decoding: rig.content(), as: UTF8.self) == "same")
      var facts = outcome.facts
      facts?.metrics = nil
      #expect(facts == AttemptFacts(requestWasSent: true, sent: 200_000, received: 4, source: .unchanged))
    }
  }
}
