// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"testing"
	"time"
)

// RunFor is Run with a limit for the time that a Watcher takes.
func RunFor(t *testing.T, waitTimeout time.Duration, open func(t *testing.T) Harness) {
	run(t, open, waitTimeout)
}

// RunJudge is the part of Run that compares verdicts. It ends after the first random world that
// fails.
func RunJudge(t *testing.T, open func(t *testing.T) Harness) {
	k := kit{open: open, waitTimeout: waitTimeout}
	t.Run("judge cases", k.judgeCases)
	t.Run("judge worlds", func(t *testing.T) {
		for seed := range uint64(defaultWorlds) {
			if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { k.judgeWorld(t, seed) }) {
				return
			}
		}
	})
}
