// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/examples/agent/internal/nflog"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/nsthread"
	"github.com/wayleave/wayleave/policy"
)

// errNotLogged is of an agent that logs no verdicts.
var errNotLogged = errors.New("verdicts are not logged: set verdict-log-group, or name a group that something else logs to")

// wish is what a request for verdicts asks for.
type wish struct {
	group uint16
	rate  int
	all   bool
}

func wishOf(r *http.Request, log nft.VerdictLog) (w wish, err error) {
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
		w.group = log.Group
		return w, nil
	}
	group, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return w, fmt.Errorf("group: want a number from 0 to 65535, not %q", text)
	}
	w.group = uint16(group)
	return w, nil
}

// drops follows the verdicts that are logged until whoever asked goes.
func (d *Daemon) drops(w http.ResponseWriter, r *http.Request) {
	p := d.current()
	if p == nil {
		api.Fail(w, http.StatusServiceUnavailable, errStarting)
		return
	}
	wish, err := wishOf(r, p.VerdictLog())
	if err != nil {
		api.Fail(w, http.StatusUnprocessableEntity, err)
		return
	}
	book := newRuleBook()
	for _, resource := range p.World() {
		book.note(policy.Update{Key: resource.Key(), Resource: resource})
	}
	d.follow(book)
	defer d.unfollow(book)
	l, err := d.taps.join(wish.group)
	if err != nil {
		api.Fail(w, http.StatusServiceUnavailable, err)
		return
	}
	defer d.taps.leave(l)
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	limit := limiter{rate: wish.rate, left: wish.rate, since: time.Now()}
	begun := false
	for {
		select {
		case <-r.Context().Done():
			return
		case <-l.done:
			if !begun {
				api.Fail(w, http.StatusConflict, fmt.Errorf("%w: another program than the agent may be following it", l.err))
			}
			return
		case e := <-l.entries:
			v := book.verdict(e, d.interfaceName)
			if v.Decision != "deny" && !wish.all {
				continue
			}
			limit.missed += e.Missed
			if !limit.allows(time.Now()) {
				continue
			}
			begun = true
			v.Missed, limit.missed = limit.missed, 0
			if err := errors.Join(out.Encode(v), flush.Flush()); err != nil {
				return
			}
		}
	}
}

// limiter lets so many pass a second, and counts what it holds back.
type limiter struct {
	rate, left, missed int
	since              time.Time
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

// follow has a book told of every update of the sources.
func (d *Daemon) follow(b *ruleBook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.books[b] = struct{}{}
}

func (d *Daemon) unfollow(b *ruleBook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.books, b)
}

// updated passes updates on to whoever follows verdicts.
func (d *Daemon) updated(updates []policy.Update) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := range d.books {
		for _, u := range updates {
			b.note(u)
		}
	}
}

// interfaceName returns the name of an interface of the node, from its index; nothing for one that is not there.
func (d *Daemon) interfaceName(index uint32) (name string) {
	ask := func() error {
		i, err := net.InterfaceByIndex(int(index))
		if err == nil {
			name = i.Name
		}
		return err
	}
	if d.cfg.NetNS == 0 {
		_ = ask()
	} else {
		_ = nsthread.In(d.cfg.NetNS, ask)
	}
	return name
}

// ruleBook knows rules by their ids, and endpoints by their addresses. It forgets nothing: a packet may have been judged by a
// rule that is gone by now. It is safe for concurrent use.
type ruleBook struct {
	mu        sync.Mutex
	rules     map[string]rule
	endpoints map[netip.Addr]string
	// interfaces that have been asked for.
	interfaces map[uint32]string
}

// rule says where a rule is.
type rule struct {
	owner       policy.Key
	tier        string
	direction   string
	index       int
	annotations map[string]string
}

func newRuleBook() *ruleBook {
	return &ruleBook{rules: map[string]rule{}, endpoints: map[netip.Addr]string{}, interfaces: map[uint32]string{0: ""}}
}

// note takes in an update.
func (b *ruleBook) note(u policy.Update) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r := u.Resource.(type) {
	case *policy.Policy:
		if r != nil {
			b.noteRules(u.Key, r.TierName(), r.Ingress, r.Egress)
		}
	case *policy.Profile:
		if r != nil {
			b.noteRules(u.Key, "", r.Ingress, r.Egress)
		}
	case *policy.WorkloadEndpoint:
		if r != nil {
			for _, addr := range r.Addresses {
				b.endpoints[addr.Unmap()] = r.Namespace + "/" + r.Name
			}
			for _, name := range r.Profiles {
				b.noteMissing(name)
			}
		}
	}
}

// noteMissing takes in the rules that stand for a profile as long as there is none of that name: they deny everything.
func (b *ruleBook) noteMissing(name string) {
	key := (&policy.Profile{Name: name}).Key()
	deny := []policy.Rule{{Action: policy.Deny, Metadata: &policy.RuleMetadata{
		Annotations: map[string]string{"wayleave.dev/missing": "there is no such profile"},
	}}}
	for _, direction := range []policy.Type{policy.Ingress, policy.Egress} {
		if _, there := b.rules[policy.RuleIDs(key, direction, deny)[0]]; there {
			return // a profile that does just that
		}
	}
	b.noteRules(key, "", deny, deny)
}

func (b *ruleBook) noteRules(owner policy.Key, tier string, ingress, egress []policy.Rule) {
	for direction, rules := range map[policy.Type][]policy.Rule{policy.Ingress: ingress, policy.Egress: egress} {
		for i, id := range policy.RuleIDs(owner, direction, rules) {
			known := rule{owner: owner, tier: tier, direction: strings.ToLower(string(direction)), index: i}
			if rules[i].Metadata != nil {
				known.annotations = rules[i].Metadata.Annotations
			}
			b.rules[id] = known
		}
	}
}

// verdict says what was decided about a packet, and by what.
func (b *ruleBook) verdict(e nflog.Entry, interfaceName func(uint32) string) api.Verdict {
	decision, by, _ := strings.Cut(e.Prefix, " ")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, index := range []uint32{e.In, e.Out} {
		if _, known := b.interfaces[index]; !known {
			b.interfaces[index] = interfaceName(index)
		}
	}
	v := api.Verdict{
		Time: time.Now(), Decision: decision, From: b.endpoints[e.Src], To: b.endpoints[e.Dst],
		Src: e.Src.String(), Dst: e.Dst.String(), Protocol: e.Protocol.String(), SrcPort: e.SrcPort, DstPort: e.DstPort,
		In: b.interfaces[e.In], Out: b.interfaces[e.Out],
	}
	r, ok := b.rules[by]
	if !ok {
		v.Reason = by
		return v
	}
	v.Policy, v.Tier, v.Direction, v.Rule, v.Annotations = &r.owner, r.tier, r.direction, &r.index, r.annotations
	return v
}
