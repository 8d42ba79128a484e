// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"time"

	"github.com/wayleave/wayleave/internal/dispute"
)

const (
	// disputePause is the least time between two repairs of Watch while objects are disputed.
	disputePause = time.Second
	// maxRepairs bounds the repaired objects that Watch reports at once.
	maxRepairs = 100
)

// recordRepair records that an object that another process changed was repaired. key identifies it.
func (k *Keeper) recordRepair(key any, o Object) {
	if len(k.repairs) < maxRepairs {
		k.repairs = append(k.repairs, o)
	}
	if _, begins := k.disputes.Record(key, k.now()); begins {
		k.cfg.Logger.Warn("another process changes an object repeatedly; it may use the same protocol number",
			"object", o.String(), "protocol", k.cfg.Protocol)
	}
}

// takeRepairs returns the objects that were repaired since the last call.
func (k *Keeper) takeRepairs() []Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	repairs := k.repairs
	k.repairs = nil
	return repairs
}

// disputed reports whether another process changes objects of ours repeatedly.
func (k *Keeper) disputed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.disputes.Any(k.now())
}

// keepsUnwanted reports whether an unwanted object that another process made stays for now. If two
// processes with one protocol number remove each other's routes, this ends the exchange.
func (p *pass) keepsUnwanted() bool {
	if p.k.tearingDown || !p.k.disputes.Any(p.k.now()) {
		return false
	}
	p.wait(p.k.now().Add(dispute.Quiet))
	return true
}
