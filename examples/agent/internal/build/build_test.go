// SPDX-License-Identifier: Apache-2.0

package build

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInfo(t *testing.T) {
	i := of(&debug.BuildInfo{
		GoVersion: "go1.99", Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	})
	require.Equal(t, "v1.2.3, revision abc-dirty, go1.99", i.String())
	require.Equal(t, Info{Version: "unknown", Revision: "unknown", GoVersion: runtime.Version()},
		of(&debug.BuildInfo{}))
	require.Equal(t, runtime.Version(), Read().GoVersion)
	require.NotEmpty(t, Read().Version)
}
