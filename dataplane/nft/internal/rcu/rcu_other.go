// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rcu

import "errors"

// Supported returns errors.ErrUnsupported.
func Supported() error { return errors.ErrUnsupported }

// Synchronize returns errors.ErrUnsupported.
func Synchronize() error { return errors.ErrUnsupported }
