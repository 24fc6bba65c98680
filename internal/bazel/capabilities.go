package bazel

import (
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/bazelbuild/remote-apis/build/bazel/semver"
)

// getCapabilities is never shed: a client that cannot learn what the cache can do fails its build.
func (s *Service) getCapabilities(c *call) error {
	var req repb.GetCapabilitiesRequest
	if err := c.small(&req); err != nil {
		return err
	}
	if err := c.setInstance(req.InstanceName); err != nil {
		return err
	}
	zstd := []repb.Compressor_Value{repb.Compressor_ZSTD}
	return c.reply(&repb.ServerCapabilities{
		CacheCapabilities: &repb.CacheCapabilities{
			DigestFunctions:                 []repb.DigestFunction_Value{repb.DigestFunction_SHA256},
			ActionCacheUpdateCapabilities:   &repb.ActionCacheUpdateCapabilities{UpdateEnabled: true},
			MaxBatchTotalSizeBytes:          s.opt.MaxBatch,
			MaxCasBlobSizeBytes:             s.opt.MaxBlob,
			SymlinkAbsolutePathStrategy:     repb.SymlinkAbsolutePathStrategy_ALLOWED,
			SupportedCompressors:            zstd,
			SupportedBatchUpdateCompressors: zstd,
		},
		LowApiVersion:  &semver.SemVer{Major: 2},
		HighApiVersion: &semver.SemVer{Major: 2, Minor: 3},
	})
}
