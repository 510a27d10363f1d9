import CurlEngine
import Glibc
import LinuxSystem
import TransferCore

/// The opened files of an attempt. Whoever takes the value owns the descriptors.
struct LocalFiles: Sendable {
  var part: Int32?
  var partBytes: Int64?
  var source: Int32?
  /// Of the source, as it was opened.
  var identity: FileIdentity?

  func closeAll() {
    for case let descriptor? in [part, source] { _ = OwnedDescriptor(adopting: descriptor) }
  }
}

struct LocalFileFailure: Error, Sendable {
  var failure: TransferFailure
}

/// File calls, on the loop's thread where they end in bounded time, else on a worker.
enum LocalFileCalls {
  static func open(part: String?, source: String?) -> Swift.Result<LocalFiles, LocalFileFailure> {
    var files = LocalFiles()
    do throws(SystemError) {
      if let part {
        let file = try openPart(part)
        files.partBytes = try Files.identity(descriptor: file.raw).sizeBytes
        files.part = file.take()
      }
    } catch {
      return .failure(LocalFileFailure(failure: partFailure(error)))
    }
    guard let source else { return .success(files) }
    do throws(SystemError) {
      let file = try OwnedDescriptor.open(source, .read)
      files.identity = try Files.identity(descriptor: file.raw)
      files.source = file.take()
      return .success(files)
    } catch {
      files.closeAll()
      let isMissing = error.number == ENOENT || error.number == ENOTDIR
      return .failure(
        LocalFileFailure(
          failure: TransferFailure(
            isMissing ? .sourceMissing : .sourceUnreadable, .permanent, domain: "errno", number: Int(error.number),
            detail: "The file \(source) cannot be read: \(error.name).")))
    }
  }

  private static func openPart(_ path: String) throws(SystemError) -> OwnedDescriptor {
    let flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC
    do throws(SystemError) {
      return OwnedDescriptor(
        adopting: try Syscall.retrying("open", path: path) { unsafe Glibc.open(path, flags, 0o600) })
    } catch {
      guard error.number == ENOENT else { throw error }
      // The folder goes with its last file.
      let folder = Files.parent(of: path)
      try Syscall.retrying("mkdir", path: folder) { unsafe mkdir(folder, 0o700) }
      return OwnedDescriptor(
        adopting: try Syscall.retrying("open", path: path) { unsafe Glibc.open(path, flags, 0o600) })
    }
  }

  static func partFailure(_ error: SystemError) -> TransferFailure {
    let isFull = error.number == ENOSPC || error.number == EDQUOT
    return TransferFailure(
      isFull ? .noSpace : .destinationUnavailable, .transient, domain: "errno", number: Int(error.number),
      detail: "The temporary file cannot be written: \(error).")
  }

  /// The file as the program gets it: its coding undone.
  static func finalize(_ order: FinalizeOrder) -> FinalizeOutcome {
    guard let coding = order.contentEncoding, order.held > 0 else {
      return .placed(path: order.partPath, bytes: order.held, sha256: nil)
    }
    let path = order.partPath + ".decoded"
    defer { try? Files.remove(path) }
    do throws(SystemError) {
      let encoded = try OwnedDescriptor.open(order.partPath, .read, followingSymlinks: false)
      let decoded = try Files.createPrivate(path)
      let bytes: Int64
      do throws(DecodingFailure) {
        bytes = try ContentDecoder.decode(
          coding, from: encoded.raw, to: decoded.raw,
          limitBytes: ContentDecoder.limitBytes(encodedBytes: order.held))
      } catch {
        return .failed(error.failure)
      }
      try Syscall.retrying("rename", path: path) { unsafe rename(path, order.partPath) }
      return .placed(path: order.partPath, bytes: bytes, sha256: nil)
    } catch {
      return .failed(partFailure(error))
    }
  }

  /// Writes the body of a redirect that turned out to be the result. Returns the count that is held.
  static func write(_ bytes: [UInt8], to path: String) throws(SystemError) -> Int64 {
    let file = try openPart(path)
    try Files.truncate(file.raw, toBytes: 0)
    try Syscall.writeAll(file.raw, bytes)
    return Int64(bytes.count)
  }

  static func remove(_ paths: [String], folder: String) {
    for path in paths { try? Files.remove(path) }
    // Goes only when it is empty.
    _ = unsafe rmdir(folder)
  }
}
