// Placeholder until the first file of LinuxSystem lands.
