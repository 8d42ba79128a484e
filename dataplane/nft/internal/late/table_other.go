// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package late

import (
	"errors"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

// Table drops late packets of ended connections, on Linux.
type Table struct{}

// New returns errors.ErrUnsupported.
func New(Config) (*Table, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Table) Close() error { return nil }

// Name returns no name.
func (*Table) Name() string { return "" }

// Exists returns errors.ErrUnsupported.
func (*Table) Exists() (bool, error) { return false, errors.ErrUnsupported }

// Add returns errors.ErrUnsupported.
func (*Table) Add([]conntrack.Flow) error { return errors.ErrUnsupported }

// Enable does nothing.
func (*Table) Enable() {}

// Expire returns errors.ErrUnsupported.
func (*Table) Expire() (time.Duration, error) { return 0, errors.ErrUnsupported }

// Disable returns errors.ErrUnsupported.
func (*Table) Disable() error { return errors.ErrUnsupported }
