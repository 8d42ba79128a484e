// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Component is a part of the agent. Its functions may be called from several goroutines.
type Component struct {
	// Name of the part, for display.
	Name string
	// Ready returns why the part is not ready; empty if it is ready. Nil means that the part is
	// always ready.
	Ready func() string
	// Note returns a note about a part that is ready; empty if there is none. Nil means that there
	// are no notes.
	Note func() string
	// Progress returns whether the part has work to do, and a number that grows as the part makes
	// progress. Nil means that the part cannot be stuck.
	Progress func() (busy bool, done uint64)
}

// Config configures a Checker.
type Config struct {
	// Timeout is the time after which a busy part without progress is stuck. Required.
	Timeout time.Duration
	// Components are the parts of the agent. A Report has them in this order.
	Components []Component
}

// Report is the result of a check.
type Report struct {
	OK         bool     `json:"ok"`
	Components []Result `json:"components"`
}

// Result is about one part.
type Result struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Checker checks parts. It is safe for concurrent use.
type Checker struct {
	cfg Config

	mu   sync.Mutex
	seen []sample
}

// sample records when a part last made progress.
type sample struct {
	done uint64
	at   time.Time
}

// New returns a checker.
func New(cfg Config) *Checker {
	return &Checker{cfg: cfg, seen: make([]sample, len(cfg.Components))}
}

// Run checks the parts periodically until ctx is done, and returns the error of ctx. Without Run, a
// Checker compares the progress of the parts only when a request comes, so it may detect a stuck
// part late.
func (c *Checker) Run(ctx context.Context) error {
	ticker := time.NewTicker(max(c.cfg.Timeout/4, time.Millisecond))
	defer ticker.Stop()
	for {
		c.CheckLive()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// CheckLive reports the parts that are stuck.
func (c *Checker) CheckLive() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	r := Report{OK: true}
	for i, part := range c.cfg.Components {
		detail := ""
		if part.Progress != nil {
			busy, done := part.Progress()
			s := &c.seen[i]
			if !busy || done != s.done || s.at.IsZero() {
				*s = sample{done, now}
			}
			if stuck := now.Sub(s.at); stuck > c.cfg.Timeout {
				detail = fmt.Sprintf("has made no progress for %s", stuck.Round(time.Second))
			}
		}
		r.add(part.Name, detail)
	}
	return r
}

// CheckReady reports the parts that are not ready. A stuck part is not ready.
func (c *Checker) CheckReady() Report {
	live := c.CheckLive()
	r := Report{OK: true}
	for i, part := range c.cfg.Components {
		detail := live.Components[i].Detail
		if detail == "" && part.Ready != nil {
			detail = part.Ready()
		}
		r.add(part.Name, detail)
		if detail == "" && part.Note != nil {
			r.Components[i].Note = part.Note()
		}
	}
	return r
}

func (r *Report) add(name, detail string) {
	r.OK = r.OK && detail == ""
	r.Components = append(r.Components, Result{Name: name, OK: detail == "", Detail: detail})
}

// Live serves CheckLive.
func (c *Checker) Live() http.Handler { return serve(c.CheckLive) }

// Ready serves CheckReady.
func (c *Checker) Ready() http.Handler { return serve(c.CheckReady) }

func serve(check func() Report) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := check()
		w.Header().Set("Content-Type", "application/json")
		if !r.OK {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(r) // an error means that the client has disconnected
	})
}
