// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"math"
	"time"
)

// burst is the time in which an empty bucket fills.
const burst = 100 * time.Millisecond

// bucket is a token bucket. Flows are taken in batches, so the number of tokens may fall below
// zero.
type bucket struct {
	rate   float64 // tokens a second
	tokens float64
	filled time.Time
}

func newBucket(rate int, now time.Time) bucket {
	b := bucket{rate: float64(rate), filled: now}
	b.tokens = b.capacity()
	return b
}

func (b *bucket) capacity() float64 { return max(1, b.rate*burst.Seconds()) }

// fill adds the tokens since the last call, and returns the number of whole tokens.
func (b *bucket) fill(now time.Time) int {
	if elapsed := now.Sub(b.filled); elapsed > 0 {
		b.tokens = min(b.capacity(), b.tokens+elapsed.Seconds()*b.rate)
	}
	b.filled = now // also if the clock was set back
	return int(max(0, math.Floor(b.tokens+1e-9)))
}

func (b *bucket) take(n int) { b.tokens -= float64(n) }

// wait returns the time until there is a token.
func (b *bucket) wait() time.Duration {
	if b.tokens >= 1 {
		return 0
	}
	return time.Duration(math.Ceil((1 - b.tokens) / b.rate * float64(time.Second)))
}
