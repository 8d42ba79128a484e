// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package applier

import (
	"context"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Applier is not available on this operating system.
type Applier struct{}

// New returns ErrUnsupported.
func New(Config) (*Applier, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Applier) Close() error { return nil }

// Stats returns zero Stats.
func (*Applier) Stats() Stats { return Stats{} }

// Table returns nil.
func (*Applier) Table() *ruleset.Table { return nil }

// Held returns nil.
func (*Applier) Held() []*ObjectError { return nil }

// Keys returns ErrUnsupported.
func (*Applier) Keys(string, func([]byte)) error { return ErrUnsupported }

// Update returns ErrUnsupported.
func (*Applier) Update(context.Context, *ruleset.Delta) error { return ErrUnsupported }

// UpdateVisible returns ErrUnsupported.
func (*Applier) UpdateVisible(context.Context, *ruleset.Delta) error { return ErrUnsupported }

// Unfinished returns nil.
func (*Applier) Unfinished() <-chan struct{} { return nil }

// Finish returns ErrUnsupported.
func (*Applier) Finish(context.Context) error { return ErrUnsupported }

// Apply returns ErrUnsupported.
func (*Applier) Apply(context.Context, *ruleset.Table) error { return ErrUnsupported }

// PlanTable returns ErrUnsupported.
func (*Applier) PlanTable(*ruleset.Table) ([]ruleset.Op, error) { return nil, ErrUnsupported }

// Resync returns ErrUnsupported.
func (*Applier) Resync(context.Context) error { return ErrUnsupported }

// Verify returns ErrUnsupported.
func (*Applier) Verify(context.Context) error { return ErrUnsupported }

// Teardown returns ErrUnsupported.
func (*Applier) Teardown(context.Context) error { return ErrUnsupported }

// Exists returns ErrUnsupported.
func (*Applier) Exists() (bool, error) { return false, ErrUnsupported }

// Watch returns ErrUnsupported.
func (*Applier) Watch(context.Context, func(Drift)) error { return ErrUnsupported }
