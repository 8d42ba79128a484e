// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"math"
	"time"
)

// burst is how long the tokens of a full bucket have taken to come in.
const burst = 100 * time.Millisecond

// bucket bounds a rate. Tokens may be taken that are not there yet, as what they
// are for comes in parcels: then there are none until the debt is paid.
type bucket struct {
	rate   float64 // tokens a second
	tokens float64
	filled time.Time
}

func newBucket(rate int, now time.Time) bucket {
	b := bucket{rate: float64(rate), filled: now}
	b.tokens = b.most()
	return b
}

func (b *bucket) most() float64 { return max(1, b.rate*burst.Seconds()) }

// fill adds the tokens that came in since the last time, and returns how many whole ones there are.
func (b *bucket) fill(now time.Time) int {
	if elapsed := now.Sub(b.filled); elapsed > 0 {
		b.tokens = min(b.most(), b.tokens+elapsed.Seconds()*b.rate)
	}
	b.filled = now // also after a step back
	return int(max(0, math.Floor(b.tokens+1e-9)))
}

func (b *bucket) take(n int) { b.tokens -= float64(n) }

// wait returns how long it takes until there is a token.
func (b *bucket) wait() time.Duration {
	if b.tokens >= 1 {
		return 0
	}
	return time.Duration(math.Ceil((1 - b.tokens) / b.rate * float64(time.Second)))
}
