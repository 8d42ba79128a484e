// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails if a goroutine with code of this package still runs after the tests.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	deadline := time.Now().Add(10 * time.Second)
	for leaked() != "" && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if stacks := leaked(); stacks != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+stacks)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of all other goroutines in this package.
func leaked() string {
	buffer := make([]byte, 1<<20)
	var found []string
	for i, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if i > 0 && strings.Contains(stack, "wayleave/calcgraph") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}
