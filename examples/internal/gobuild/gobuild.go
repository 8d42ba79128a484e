// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// ErrNoSources is returned where there is nothing to build from. Root has the sources, so that nothing is left out there.
var ErrNoSources = errors.New("needs the go command and the sources, which this user does not have")

// userNamespace is the variable that package netns sets for an ordinary user.
const userNamespace = "WAYLEAVE_IN_USER_NAMESPACE"

// Build builds the package at a path, relative to the working directory, or of a module that the current one requires.
func Build(binary, path string) error {
	out, err := exec.Command("go", "build", "-o", binary, path).CombinedOutput()
	if err == nil {
		return nil
	}
	if os.Getenv(userNamespace) != "" && !Sources() {
		return ErrNoSources
	}
	return fmt.Errorf("gobuild: %s: %w\n%s", path, err, out)
}

// Sources reports whether the working directory is in a module.
func Sources() bool {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	return err == nil && string(out) != os.DevNull+"\n" && string(out) != "\n"
}
