#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization

  /// Reads what a `file:` or a `data:` URL (RFC 2397) names.
  final class LocalURLCarrier: Carrier, @unchecked Sendable {
    private let run: TaskRun
    private let request: URLRequest
    /// Everything below is touched on it only.
    private let queue = DispatchQueue(label: "URLSession file")
    private let spool: Spool?
    private var file: FileHandle?
    private var isPaused = false
    private var isHeld = false
    private var isOver = false
    private var isReading = false

    init(_ run: TaskRun, _ request: URLRequest) {
      self.run = run
      self.request = request
      spool = run.order.kind == .download ? Spool() : nil
    }

    func start() {
      queue.async {
        guard let url = self.request.url, !self.isOver else { return }
        if url.isFileURL { self.open(url) } else { self.decode(url) }
      }
    }

    func pause() { queue.async { self.isPaused = true } }
    func resume() { go { $0.isPaused = false } }
    func takeMore() { go { $0.isHeld = false } }
    func prioritize(_ priority: Float) {}
    func cancel(keepsPart: Bool) { queue.async { self.end(FailureTranslation.cancellation(url: self.request.url)) } }
    func release() { spool?.remove() }

    private func go(_ change: @escaping @Sendable (LocalURLCarrier) -> Void) {
      queue.async {
        change(self)
        self.read()
      }
    }

    private func end(_ error: URLError?) {
      guard !isOver else { return }
      isOver = true
      try? file?.close()
      file = nil
      run.ended(error, spool)
    }

    // MARK: file:

    private func open(_ url: URL) {
      let path = url.path
      var isFolder: ObjCBool = false
      guard unsafe FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
        return end(FailureTranslation.make(.fileDoesNotExist, "There is no file at \(path).", url: url))
      }
      guard !isFolder.boolValue else {
        return end(FailureTranslation.make(.fileIsDirectory, "\(path) is a folder.", url: url))
      }
      guard let opened = try? FileHandle(forReadingFrom: url) else {
        return end(FailureTranslation.make(.noPermissionsToReadFile, "\(path) cannot be read.", url: url))
      }
      let size = (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? NSNumber
      file = opened
      isReading = true
      run.responded(
        URLResponse(url: url, mimeType: nil, expectedContentLength: size?.intValue ?? -1, textEncodingName: nil))
      read()
    }

    private static let pieceBytes = 64 * 1024

    private func read() {
      while isReading, !isPaused, !isHeld, !isOver, let file {
        guard let piece = try? file.read(upToCount: Self.pieceBytes), !piece.isEmpty else { return end(nil) }
        isHeld = !run.take(piece, spool)
      }
    }

    // MARK: data:

    private func decode(_ url: URL) {
      let text = url.absoluteString.dropFirst("data:".count)
      guard let comma = text.firstIndex(of: ","), let content = Self.content(text, comma) else {
        return end(FailureTranslation.make(.badURL, "The data: URL is not what RFC 2397 says.", url: url))
      }
      let parts = text[..<comma].split(separator: ";", omittingEmptySubsequences: false)
      let charset = parts.dropFirst().first { $0.lowercased().hasPrefix("charset=") }?.dropFirst("charset=".count)
      let type = parts.first.map(String.init) ?? ""
      run.responded(
        URLResponse(
          url: url, mimeType: type.isEmpty ? "text/plain" : type, expectedContentLength: content.count,
          textEncodingName: charset.map(String.init) ?? (type.isEmpty ? "US-ASCII" : nil)))
      if !content.isEmpty { isHeld = !run.take(content, spool) }
      end(nil)
    }

    private static func content(_ text: Substring, _ comma: Substring.Index) -> Data? {
      let plain = String(text[text.index(after: comma)...]).removingPercentEncoding
      guard text[..<comma].lowercased().hasSuffix(";base64") else {
        return percentDecoded(text[text.index(after: comma)...])
      }
      return plain.flatMap { Data(base64Encoded: $0, options: .ignoreUnknownCharacters) }
    }

    /// The bytes need not be UTF-8.
    private static func percentDecoded(_ text: Substring) -> Data? {
      var bytes = Data()
      var rest = Array(text.utf8)[...]
      while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "%") else {
          bytes.append(byte)
          continue
        }
        guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
          return nil
        }
        bytes.append(value)
        rest = rest.dropFirst(2)
      }
      return bytes
    }
  }

  /// The file of a download that does not come from the network.
  final class Spool: Sendable {
    let url = FileManager.default.temporaryDirectory
      .appendingPathComponent("CFNetworkDownload_\(UUID().uuidString).tmp")
    private let state = Mutex(State())

    private struct State {
      var file: FileHandle?
      var written: Int64 = 0
      var failure: URLError?
    }

    init() {
      guard FileManager.default.createFile(atPath: url.path, contents: nil, attributes: [.posixPermissions: 0o600])
      else {
        fail("it cannot be made")
        return
      }
      do {
        let file = try FileHandle(forWritingTo: url)
        state.withLock { $0.file = file }
      } catch {
        fail("\(error)")
      }
    }

    var failure: URLError? { state.withLock { $0.failure } }

    private func fail(_ cause: String) {
      let text = "The temporary file \(url.path) cannot be written: \(cause)."
      state.withLock { $0.failure = $0.failure ?? FailureTranslation.make(.cannotWriteToFile, text) }
    }

    /// Returns the bytes written so far.
    func append(_ data: Data) -> Int64 {
      do {
        try state.withLock { $0.file }?.write(contentsOf: data)
      } catch {
        fail("\(error)")
      }
      return state.withLock { state in
        state.written += Int64(data.count)
        return state.written
      }
    }

    func remove() {
      try? state.withLock { $0.file }?.close()
      try? FileManager.default.removeItem(at: url)
    }
  }

  extension TaskRun {
    /// A piece goes into the spool of a download, or to the program. False: that is enough until
    /// ``Carrier/takeMore()``.
    func take(_ piece: Data, _ spool: Spool?) -> Bool {
      guard let spool else { return received(piece) }
      progressed(received: spool.append(piece), sent: 0)
      return true
    }

    func ended(_ error: URLError?, _ spool: Spool?) {
      let failure = error ?? spool?.failure
      ended(failure, file: failure == nil ? spool?.url : nil)
    }
  }
#endif
