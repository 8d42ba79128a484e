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

// ProgramsEnv is an environment variable with the path of a directory. The directory has programs
// that are already built. The name of each program is the last element of its import path. If a
// compiled test runs without the sources, it needs this variable.
const ProgramsEnv = "TEST_PROGRAMS"

// NoRace makes Build omit the race detector, for tests that measure or limit memory or time.
const NoRace = "-race=false"

// Build builds a program and writes it to a file. The parameter importPath is the import path of
// the program, and binary is the path of the file. The parameter flags has flags of the go command.
// If the test runs with the race detector, Build uses the race detector, too. If the environment
// variable ProgramsEnv is set, Build copies the program from the directory that the variable names,
// and ignores flags.
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
