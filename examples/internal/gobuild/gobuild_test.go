// SPDX-License-Identifier: Apache-2.0

package gobuild_test

import (
	"debug/buildinfo"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/gobuild"
)

// hasRace reports whether a program was built with the race detector.
func hasRace(info *debug.BuildInfo) bool {
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// Build uses the race detector if the test does, unless it gets NoRace.
func TestBuildWithRaceDetector(t *testing.T) {
	own, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	t.Setenv(gobuild.ProgramsEnv, "")
	binary := filepath.Join(t.TempDir(), "ownroutes")
	for _, flags := range [][]string{nil, {gobuild.NoRace}} {
		require.NoError(t, gobuild.Build(binary, "github.com/wayleave/wayleave/examples/ownroutes", flags...))
		built, err := buildinfo.ReadFile(binary)
		require.NoError(t, err)
		require.Equal(t, hasRace(own) && flags == nil, hasRace(built), "flags %q", flags)
	}
}
