// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Policy decides about a flow that the ruleset allowed when it began and denies after a change. It
// does not apply to flows of addresses that change hands: these always end.
type Policy uint8

const (
	// Keep lets it go on: connection tracking accepts established flows before policy is asked. It is the default.
	Keep Policy = iota
	// End ends it.
	End
)

// String returns "keep" or "end".
func (p Policy) String() string {
	switch p {
	case Keep:
		return "keep"
	case End:
		return "end"
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// MarshalText returns the text of String. Errors: the policy is unknown.
func (p Policy) MarshalText() ([]byte, error) {
	if p > End {
		return nil, fmt.Errorf("conntrack: %s is neither %s nor %s", p, Keep, End)
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads "keep" or "end". Errors: any other text.
func (p *Policy) UnmarshalText(text []byte) error {
	for _, known := range []Policy{Keep, End} {
		if string(text) == known.String() {
			*p = known
			return nil
		}
	}
	return fmt.Errorf("conntrack: policy %q is neither %s nor %s", text, Keep, End)
}

// Defaults of Config.
const (
	// DefaultJudgeRate keeps a sweep of 100,000 flows at half a second.
	DefaultJudgeRate = 200_000
	// DefaultEndRate bounds how many clients connect again at once.
	DefaultEndRate = 10_000
	// DefaultDelay is far more than a packet takes through the node.
	DefaultDelay = 20 * time.Millisecond
	// DefaultRetry is how long a sweep that failed rests.
	DefaultRetry = time.Second
)

// Config configures a Sweeper. The zero value is good.
type Config struct {
	// NetNS is a file descriptor of the network namespace, needed only during New. Zero means that
	// of the calling thread.
	NetNS int
	// JudgeRate is how many flows are judged a second at most. 0 means DefaultJudgeRate.
	JudgeRate int
	// EndRate is how many flows are ended a second at most. 0 means DefaultEndRate.
	EndRate int
	// Delay is how long after a change its sweep begins, so that packets that the old ruleset let
	// through at the last moment have entered the table. Changes meanwhile share the sweep. 0 means
	// DefaultDelay, less than 0 none.
	Delay time.Duration
	// Retry is how long to wait after a failure. 0 means DefaultRetry.
	Retry time.Duration
	// Hooks are told of what happens.
	Hooks Hooks
	// Logger logs sweeps that ended flows and, at level debug, each Step without a pending sweep.
	// Nil discards.
	Logger *slog.Logger
	// now returns the time, to any goroutine. It is time.Now, except in tests.
	now func() time.Time
}

// Hooks are told of what happens, each if not nil, on the goroutine that it happens on. They
// must not call the Sweeper.
type Hooks struct {
	// Ending is told of each flow that is about to be ended because its verdict flipped; it must not keep
	// the pointer.
	Ending func(*Flow)
}

func (c Config) withDefaults() Config {
	if c.JudgeRate == 0 {
		c.JudgeRate = DefaultJudgeRate
	}
	if c.EndRate == 0 {
		c.EndRate = DefaultEndRate
	}
	if c.Delay == 0 {
		c.Delay = DefaultDelay
	}
	if c.Retry == 0 {
		c.Retry = DefaultRetry
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.NetNS < 0 {
		errs = append(errs, fmt.Errorf("conntrack: NetNS: %d is no file descriptor", c.NetNS))
	}
	if c.JudgeRate < 0 {
		errs = append(errs, fmt.Errorf("conntrack: JudgeRate: %d is less than 0", c.JudgeRate))
	}
	if c.EndRate < 0 {
		errs = append(errs, fmt.Errorf("conntrack: EndRate: %d is less than 0", c.EndRate))
	}
	if c.Retry < 0 {
		errs = append(errs, fmt.Errorf("conntrack: Retry: %s is less than 0", c.Retry))
	}
	return errors.Join(errs...)
}
