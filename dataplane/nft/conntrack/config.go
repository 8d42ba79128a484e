// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Policy selects the treatment of a flow that the old ruleset allowed and the new one denies. It
// does not apply to flows of moved addresses: those are always ended.
type Policy uint8

const (
	// Keep lets the flow continue, because rules accept established flows before policy. It is the
	// default.
	Keep Policy = iota
	// End ends the flow.
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
	// DefaultJudgeRate is in flows per second. With it, a sweep of 100,000 flows takes half a
	// second.
	DefaultJudgeRate = 200_000
	// DefaultEndRate is in flows per second. It limits how many clients reconnect at once.
	DefaultEndRate = 10_000
	// DefaultDelay is far longer than the time that a packet needs to pass the node.
	DefaultDelay = 20 * time.Millisecond
	// DefaultRetry is the wait after a failed sweep.
	DefaultRetry = time.Second
)

// Config configures a Sweeper. The zero value is valid.
type Config struct {
	// NetNS is a file descriptor of the network namespace, needed only during New. Zero means the
	// namespace of the calling thread.
	NetNS int
	// JudgeRate is the maximum number of flows per second that a sweep judges. 0 means
	// DefaultJudgeRate.
	JudgeRate int
	// EndRate is the maximum number of flows per second that a sweep ends. 0 means DefaultEndRate.
	EndRate int
	// Delay is the time between a change and its sweep. It is necessary because packets that the
	// old ruleset has allowed may still add flows shortly after the change. Changes within this
	// time share one sweep. 0 means DefaultDelay; a negative Delay means none.
	Delay time.Duration
	// Retry is the wait after a failure. 0 means DefaultRetry.
	Retry time.Duration
	// BeforeEnd, if set, receives the flows that the Sweeper is about to end. It may receive the
	// same flow several times. If a later change allows a flow that BeforeEnd has received, the
	// Sweeper does not end the flow. If BeforeEnd returns an error, the Sweeper still ends the
	// flows, and Step returns the error at the end of the pass. A later call of Step repeats the
	// pass. BeforeEnd runs on the goroutine that calls Step. It must not keep the slice, and must
	// not call the Sweeper.
	BeforeEnd func([]Flow) error
	// Hooks are optional functions.
	Hooks Hooks
	// Logger logs sweeps that ended flows. At level debug, it also logs each call of Step that
	// returns with Progress.Done set. Nil discards.
	Logger *slog.Logger
	// now returns the time. It is time.Now, except in tests. Any goroutine may call it.
	now func() time.Time
}

// Hooks are optional functions. They are called on the goroutine that calls Step, and must not call
// the Sweeper.
type Hooks struct {
	// Ending is called for each flow that will be ended. It must not keep the pointer.
	Ending func(*Flow)
}

func (c Config) withDefaults() Config {
	c.JudgeRate = cmp.Or(c.JudgeRate, DefaultJudgeRate)
	c.EndRate = cmp.Or(c.EndRate, DefaultEndRate)
	c.Delay = cmp.Or(c.Delay, DefaultDelay)
	c.Retry = cmp.Or(c.Retry, DefaultRetry)
	if c.now == nil {
		c.now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.NetNS < 0 {
		errs = append(errs, fmt.Errorf("conntrack: Config.NetNS: %d is not a file descriptor", c.NetNS))
	}
	if c.JudgeRate < 0 {
		errs = append(errs, fmt.Errorf("conntrack: Config.JudgeRate: %d is negative", c.JudgeRate))
	}
	if c.EndRate < 0 {
		errs = append(errs, fmt.Errorf("conntrack: Config.EndRate: %d is negative", c.EndRate))
	}
	if c.Retry < 0 {
		errs = append(errs, fmt.Errorf("conntrack: Config.Retry: %s is negative", c.Retry))
	}
	return errors.Join(errs...)
}
