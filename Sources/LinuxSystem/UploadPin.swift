import CLinux
import Glibc
package import TransferCore

/// An upload's source, kept.
package struct UploadPin: ~Copyable, Sendable {
  package let kind: PinKind
  /// The pinned file; for `.none` the source's own path, as it was given.
  package let path: String
  /// Of what will be read: compare before each attempt and at its end.
  package let identity: FileIdentity
  /// Open on the pinned content. Read by position: a descriptor that came from a client shares its offset.
  package let file: OwnedDescriptor

  /// Pins the file at `source` as `name` inside the private folder `directory`: by reflink, else hard link, else copy
  /// if it has at most `copyBoundBytes` and there is room, else not at all (`.none`).
  ///
  /// The content is durable then, except that of a hard link, which is as durable as the source was; the name is once
  /// the caller has synced `directory`.
  ///
  /// Throws what a missing or unreadable source gives (ENOENT, EACCES), EINVAL for what is no regular file, EEXIST when
  /// `name` is taken, ESTALE when the source changed while it was copied.
  package static func pin(
    source: String, into directory: String, name: String, copyBoundBytes: Int64
  ) throws(SystemError) -> UploadPin {
    try pin(
      OwnedDescriptor.open(source, .read), at: source, into: directory, name: name, copyBoundBytes: copyBoundBytes)
  }

  /// As above, for a source that arrived as a descriptor; `source` is its path for messages.
  package static func pin(
    _ opened: consuming OwnedDescriptor, at source: String, into directory: String, name: String, copyBoundBytes: Int64
  ) throws(SystemError) -> UploadPin {
    guard !name.isEmpty, name != ".", name != "..", !name.contains("/"), !name.utf8.contains(0) else {
      throw SystemError(EINVAL, operation: "pin", path: name, detail: "a single file name is needed")
    }
    let status = try Files.status(descriptor: opened.raw)
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw SystemError(EINVAL, operation: "pin", path: source, detail: "only a regular file can be uploaded")
    }
    let mode = try Syscall.retrying("fcntl F_GETFL", path: source) { fcntl(opened.raw, F_GETFL) } & O_ACCMODE
    guard mode != O_WRONLY else {
      throw SystemError(EBADF, operation: "pin", path: source, detail: "the descriptor is not open for reading")
    }
    let before = FileIdentity(status)
    let path = "\(directory)/\(name)"
    if let pin = try reflink(opened.raw, path) { return pin }
    if try hardLink(opened.raw, status, path) {
      let identity = try Files.identity(descriptor: opened.raw)
      return UploadPin(kind: .hardLink, path: path, identity: identity, file: opened)
    }
    if before.sizeBytes <= copyBoundBytes, let pin = try copy(opened.raw, before, source, path) { return pin }
    return UploadPin(kind: .none, path: source, identity: before, file: opened)
  }

  private static func reflink(_ source: Int32, _ path: String) throws(SystemError) -> UploadPin? {
    let file = try Files.createPrivate(path)
    do {
      try Syscall.retrying("ioctl FICLONE") { clinux_reflink(file.raw, source) }
      try Files.syncFile(file.raw)
      let identity = try Files.identity(descriptor: file.raw)
      return UploadPin(kind: .reflink, path: path, identity: identity, file: file)
    } catch {
      // EOPNOTSUPP, EXDEV, EINVAL, ENOTTY and so on: whatever the reason, the next way may be open.
      try Files.remove(path)
      return nil
    }
  }

  /// False: this way is closed.
  private static func hardLink(
    _ source: Int32, _ status: stat, _ path: String
  ) throws(SystemError) -> Bool {
    // Another's file linked into our folder would keep his quota filled and could not be removed by him.
    guard status.st_uid == geteuid() else { return false }
    do {
      // By descriptor: exactly the inode looked at, whatever the source's name means by now.
      try Syscall.retrying("linkat", path: path) { unsafe clinux_link_descriptor(source, path) }
      return true
    } catch  where error.number == EEXIST {
      throw error
    } catch {
      // EPERM (protected_hardlinks), EXDEV, EMLINK, ENOENT (deleted already) and so on.
      return false
    }
  }

  private static func copy(
    _ source: Int32, _ before: FileIdentity, _ sourcePath: String, _ path: String
  ) throws(SystemError) -> UploadPin? {
    guard before.sizeBytes <= (try Files.freeBytes(path: Files.parent(of: path))) else { return nil }
    let file = try Files.createPrivate(path)
    do throws(SystemError) {
      try Files.copyContent(from: source, to: file.raw, countBytes: before.sizeBytes)
      guard try Files.identity(descriptor: source) == before else {
        throw SystemError(ESTALE, operation: "pin", path: sourcePath, detail: "it changed while it was copied")
      }
      try Files.syncFile(file.raw)
      let identity = try Files.identity(descriptor: file.raw)
      return UploadPin(kind: .copy, path: path, identity: identity, file: file)
    } catch {
      _ = unsafe unlink(path)
      if error.number == ENOSPC || error.number == EDQUOT { return nil }
      throw error
    }
  }
}
