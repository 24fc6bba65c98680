package blobstore

// NewMemFS is the tests' file system in memory.
func NewMemFS() FS { return newMemFS() }
