// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package flowtable

import "errors"

// Table exists on Linux only.
type Table struct{}

// New returns errors.ErrUnsupported.
func New(Config) (*Table, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Table) Close() error { return nil }

// Name returns an empty name.
func (*Table) Name() string { return "" }

// Delete returns errors.ErrUnsupported.
func (*Table) Delete() error { return errors.ErrUnsupported }

// Exists returns errors.ErrUnsupported.
func (*Table) Exists() (bool, error) { return false, errors.ErrUnsupported }

// Install returns errors.ErrUnsupported.
func (*Table) Install([]Address, []string) error { return errors.ErrUnsupported }

// Supported returns false.
func Supported() bool { return false }
