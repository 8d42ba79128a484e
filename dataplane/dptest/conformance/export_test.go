// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"
	"time"
)

// RunFor is Run with the time that a Watcher has.
func RunFor(t *testing.T, patience time.Duration, open func(t *testing.T) Harness) {
	run(t, open, patience)
}
