// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// NewOver is New over a socket of the test's, which Close closes.
func NewOver(cfg Config, sock nfnl.Socket) (*Applier, error) { return newApplier(cfg, sock) }

// SetClock makes an Applier use another clock.
func SetClock(a *Applier, now func() time.Time) { a.now = now }

// SetSynchronize makes an Applier wait for grace periods by another function.
func SetSynchronize(a *Applier, synchronize func() error) { a.synchronize = synchronize }

// RuleEncoder returns a function that encodes the expressions of a rule that uses no sets. Its result is valid until
// the next call.
func RuleEncoder() func(*ruleset.Rule) ([]byte, error) {
	e := newEncoder(ruleset.FamilyINet, "own")
	return func(r *ruleset.Rule) ([]byte, error) {
		e.ruleExprs(nfnl.Object{}, r, nil)
		data, err := e.exprs.Data()
		return data, errors.Join(err, e.finish())
	}
}
