import FoundationEssentials
import Testing
import WireProtocol

@testable import FerryClient

@Suite struct SurroundingsTests {
  @Test func proxiesFollowCurlsConventions() {
    func network(_ environment: [String: String]) -> WireNetwork { .fromEnvironment(environment) }
    #expect(network([:]) == WireNetwork())
    // The rule against httpoxy: the upper-case name of the http proxy is what a CGI server makes of a header.
    #expect(network(["HTTP_PROXY": "http://evil"]).httpProxy == nil)
    #expect(network(["http_proxy": "http://a"]).httpProxy == "http://a")
    #expect(network(["http_proxy": "http://a"]).httpsProxy == nil)
    #expect(network(["HTTPS_PROXY": "http://b", "https_proxy": "http://a"]).httpsProxy == "http://a")
    #expect(network(["HTTPS_PROXY": "http://b"]).httpsProxy == "http://b")
    #expect(network(["ALL_PROXY": "http://c"]).httpProxy == "http://c")
    #expect(network(["http_proxy": "", "all_proxy": "http://c"]).httpProxy == "http://c")
    #expect(network(["NO_PROXY": "x"]).noProxy == "x")
    #expect(network(["SSL_CERT_FILE": "/ca.pem"]).certificateFile == "/ca.pem")
  }

  @Test func theAppIsTheExecutableUnlessNamed() {
    #expect(AppIdentifier.standard(["FERRY_APP_ID": "org.example"]) == "org.example")
    #expect(!AppIdentifier.standard(["FERRY_APP_ID": ""]).isEmpty)
  }

  @Test func pathsAreCanonicalInTheirFolder() throws {
    let folder = try TemporaryFolder()
    let real = folder.path + "/real"
    try FileManager.default.createDirectory(atPath: real, withIntermediateDirectories: false)
    try FileManager.default.createSymbolicLink(atPath: folder.path + "/link", withDestinationPath: real)
    #expect(try LocalPath(folder.path + "/link/../link/./file").canonical.hasSuffix("/real/file"))
    #expect(try LocalPath(folder.path + "/link").canonical.hasSuffix("/link"))
    #expect(try LocalPath("/etc").canonical == "/etc")
    for bad in ["/", "/a/..", "/a/.", "/a\u{0}b", folder.path + "/none/file", ""] {
      #expect(throws: FerryError.self) { _ = try LocalPath(bad).canonical }
    }
    #expect(LocalPath("x").path.hasPrefix("/"))
    #expect(LocalPath(URL(string: "http://localhost/x")!) == nil)
    #expect(LocalPath(URL(string: "file://elsewhere/x")!) == nil)
    #expect(LocalPath(URL(string: "file:///a%20b")!)?.path == "/a b")
  }

  @Test(arguments: [
    ("http://h/a/b.zip", "b.zip"), ("http://h", "download"), ("http://h/", "download"), ("http://h/a%20b", "a b"),
    ("http://h/x/..", "download"), ("http://h/%00", "download"), ("http://h/a%2Fb", "b"),
    ("http://h/" + String(repeating: "x", count: 300), "download"),
  ])
  func namesComeFromTheAddress(_ address: String, _ name: String) throws {
    #expect(NewTask.fileName(for: try #require(URL(string: address))) == name)
  }

  @Test func batchesFitTheBounds() {
    let small = Array(repeating: WireTaskSpecification(kind: "download", url: "http://h/"), count: 4999)
    let batches = EnqueueBatches.split(small)
    #expect(batches.map(\.count).reduce(0, +) == 4999)
    #expect(batches.allSatisfy { $0.count <= WireLimits.tasksInBatch })
    var long = WireTaskSpecification(kind: "download", url: "http://h/" + String(repeating: "\"", count: 60_000))
    long.body = String(repeating: "/", count: WireLimits.bodyBytes * 4 / 3 + 4)
    long.headers = [WireHeader(name: "a", value: String(repeating: "\u{1}", count: 60_000))]
    for batch in EnqueueBatches.split(Array(repeating: long, count: 100)) {
      let request = ClientRequest.taskEnqueue(TaskEnqueueParameters(session: 1, tasks: Array(batch)))
      #expect(WireCoding.encodeRequest(id: 1, request).count <= WireLimits.messageBytes)
    }
    #expect(EnqueueBatches.split([]).isEmpty)
  }
}
