// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
)

// ProgramsEnv is the environment variable with the directory of programs that are already built,
// each under the last element of its import path. A compiled test that runs without the sources
// needs it.
const ProgramsEnv = "TEST_PROGRAMS"

// NoRace makes Build omit the race detector, for tests that measure or limit memory or time.
const NoRace = "-race=false"

// Build builds the program with an import path and with flags of the go command. A test that has
// the race detector builds its programs with it too. Build copies a program that is already built,
// and ignores flags, if ProgramsEnv is set.
func Build(binary, importPath string, flags ...string) error {
	if built := os.Getenv(ProgramsEnv); built != "" {
		data, err := os.ReadFile(filepath.Join(built, path.Base(importPath)))
		if err != nil {
			return fmt.Errorf("gobuild: %w", err)
		}
		return os.WriteFile(binary, data, 0o755)
	}
	args := slices.Concat([]string{"build", "-o", binary, fmt.Sprintf("-race=%t", race)}, flags, []string{importPath})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gobuild: %s: %w\n%s", importPath, err, out)
	}
	return nil
}
