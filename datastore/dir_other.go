// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package datastore

import (
	"context"
	"errors"
	"fmt"
)

// Run needs Linux; here it returns an error that wraps errors.ErrUnsupported.
func (d *Dir) Run(context.Context, Receiver) error {
	return fmt.Errorf("datastore: watch %s: %w", d.config.Path, errors.ErrUnsupported)
}
