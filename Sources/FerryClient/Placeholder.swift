// Placeholder until the first file of FerryClient lands.
