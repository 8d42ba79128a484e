// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// BenchmarkLateDeletions has 12,000 changes of UpdateVisible, each of which leaves one element.
// With finish=true, Finish is called as the Driver calls it, whenever it need not wait.
func BenchmarkLateDeletions(b *testing.B) {
	const changes, part = 12_000, 1000
	for name, finishes := range map[string]bool{"finish=false": false, "finish=true": true} {
		b.Run(name, func(b *testing.B) {
			var took [changes / part]time.Duration
			goroutines := 0
			for b.Loop() {
				b.StopTimer()
				a := open(b, nstest.New(b))
				table := epochTable(9)
				elements := verdicts(changes)
				table.Sets[1].Elements = elements
				require.NoError(b, a.Apply(bg, table))
				before := runtime.NumGoroutine()
				b.StartTimer()
				for i := range elements {
					begin := time.Now()
					require.NoError(b, a.UpdateVisible(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{
						{Set: "m", Late: elements[i : i+1]},
					}}))
					if finishes {
						select {
						case <-a.Unfinished():
							require.NoError(b, a.Finish(bg))
						default:
						}
					}
					took[i/part] += time.Since(begin)
					goroutines = max(goroutines, runtime.NumGoroutine()-before)
				}
			}
			perChange := func(d time.Duration) float64 { return d.Seconds() * 1e6 / part / float64(b.N) }
			b.ReportMetric(perChange(took[0]), "us/first")
			b.ReportMetric(perChange(took[len(took)-1]), "us/last")
			b.ReportMetric(float64(goroutines), "goroutines")
		})
	}
}
