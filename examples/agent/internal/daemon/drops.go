// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/nsthread"
	"github.com/wayleave/wayleave/policy"
)

// errNotLogged is the error of an agent that logs no verdicts.
var errNotLogged = errors.New(
	"verdicts are not logged: set verdict-log-group, or give --group with one that something else logs to",
)

// dropsRequest has the parameters of a client's request for verdicts.
type dropsRequest struct {
	group uint16
	own   bool // the request named no group: group is the one that the agent logs to
	rate  int
	all   bool
}

func parseDropsRequest(r *http.Request, log render.VerdictLog) (w dropsRequest, err error) {
	query := r.URL.Query()
	w.all = query.Get("all") == "true"
	if w.rate, err = strconv.Atoi(query.Get("rate")); err != nil || w.rate < 1 {
		return w, fmt.Errorf("rate: want a number from 1, not %q", query.Get("rate"))
	}
	text := query.Get("group")
	if text == "" {
		if !log.Enabled {
			return w, errNotLogged
		}
		w.group, w.own = log.Group, true
		return w, nil
	}
	group, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return w, fmt.Errorf("group: want a number from 0 to 65535, not %q", text)
	}
	w.group = uint16(group)
	return w, nil
}

// drops sends logged verdicts until the client disconnects.
func (d *Daemon) drops(w http.ResponseWriter, r *http.Request) {
	p, replaced := d.latest()
	if p == nil {
		api.Fail(w, http.StatusServiceUnavailable, d.starting())
		return
	}
	request, err := parseDropsRequest(r, p.VerdictLog())
	if err != nil {
		api.Fail(w, http.StatusUnprocessableEntity, err)
		return
	}
	rules := newRuleCache()
	d.follow(rules) // before World is called, so that no update in between is missed
	defer d.unfollow(rules)
	rules.fill(p.World())
	l, err := d.taps.join(request.group)
	if err != nil {
		api.Fail(w, http.StatusServiceUnavailable, err)
		return
	}
	defer func() { d.taps.leave(l) }()
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	limit := limiter{rate: request.rate, left: request.rate, since: time.Now()}
	w.Header().Set("Content-Type", "application/json")
	started, begun := l.started, false
	for {
		select {
		case <-r.Context().Done():
			return
		case <-l.done:
			if !begun {
				api.Fail(w, http.StatusConflict,
					fmt.Errorf("%w: a program other than the agent may receive it", l.err))
			}
			return
		case <-started: // the client receives the header before the first verdict
			started, begun = nil, true
			if flush.Flush() != nil {
				return
			}
		case <-replaced:
			p, replaced = d.latest()
			if l, err = d.retune(l, &request, p.VerdictLog()); err != nil {
				return
			}
		case <-rules.full:
			rules.age()
			rules.fill(d.current().World())
		case e := <-l.entries:
			v := rules.verdict(e, d.interfaceName)
			if v.Missed = limit.pass(v.Decision == "deny" || request.all, e.Missed, time.Now()); v.Missed < 0 {
				continue
			}
			begun = true
			if err := errors.Join(out.Encode(v), flush.Flush()); err != nil {
				return
			}
		}
	}
}

// retune makes a listener listen to the group to which the agent now logs, if the request named no
// group. If it fails, it returns the error of join and the old listener.
func (d *Daemon) retune(l *listener, w *dropsRequest, log render.VerdictLog) (*listener, error) {
	if !w.own || !log.Enabled || log.Group == w.group {
		return l, nil
	}
	d.taps.leave(l)
	next, err := d.taps.join(log.Group)
	if err != nil {
		return l, err
	}
	w.group = log.Group
	return next, nil
}

// limiter limits the number of verdicts per second, and counts the verdicts that were left out.
type limiter struct {
	rate, left, missed int
	since              time.Time
}

// pass decides whether to send a verdict. If the verdict was not requested, or if there are too
// many, it returns -1: leave it out. Otherwise it returns the number of verdicts that were left out
// before. missed is the number of verdicts that the kernel or the agent missed before this one.
func (l *limiter) pass(wanted bool, missed int, now time.Time) int {
	l.missed += missed
	if !wanted || !l.allows(now) {
		return -1
	}
	before := l.missed
	l.missed = 0
	return before
}

func (l *limiter) allows(now time.Time) bool {
	if now.Sub(l.since) >= time.Second {
		l.since, l.left = now, l.rate
	}
	if l.left == 0 {
		l.missed++
		return false
	}
	l.left--
	return true
}

// follow sends every further update of the sources to a cache, until unfollow.
func (d *Daemon) follow(c *ruleCache) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ruleCaches[c] = struct{}{}
}

func (d *Daemon) unfollow(c *ruleCache) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ruleCaches, c)
}

// updated sends updates to the caches that follow the sources.
func (d *Daemon) updated(updates []policy.Update) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.ruleCaches {
		for _, u := range updates {
			c.record(u)
		}
	}
}

// interfaceName returns the name of the interface of the node with an index; empty if there is
// none.
func (d *Daemon) interfaceName(index uint32) (name string) {
	find := func() error {
		i, err := net.InterfaceByIndex(int(index))
		if err == nil {
			name = i.Name
		}
		return err
	}
	if d.cfg.NetNS == 0 {
		_ = find()
	} else {
		_ = nsthread.In(d.cfg.NetNS, find)
	}
	return name
}
