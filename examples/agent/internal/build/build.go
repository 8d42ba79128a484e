// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Info has the version of the source from which a binary was built.
type Info struct {
	// Version of the module; "(devel)" if it has none.
	Version string `json:"version"`
	// Revision of the repository, with "-dirty" if files were changed.
	Revision string `json:"revision"`
	// GoVersion is the version of the Go toolchain.
	GoVersion string `json:"goVersion"`
}

const unknown = "unknown"

// Read returns the Info of the running binary.
func Read() Info {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{Version: unknown, Revision: unknown, GoVersion: runtime.Version()}
	}
	return of(b)
}

func of(b *debug.BuildInfo) Info {
	vcs := map[string]string{}
	for _, s := range b.Settings {
		vcs[s.Key] = s.Value
	}
	revision := cmp.Or(vcs["vcs.revision"], unknown)
	if vcs["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return Info{
		Version: cmp.Or(b.Main.Version, unknown), Revision: revision, GoVersion: cmp.Or(b.GoVersion, runtime.Version()),
	}
}

// String returns the Info in one line.
func (i Info) String() string {
	return fmt.Sprintf("%s, revision %s, %s", i.Version, i.Revision, i.GoVersion)
}
