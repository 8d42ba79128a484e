// SPDX-License-Identifier: Apache-2.0

//go:build noetcdserver

package main

import "errors"

// serveEtcd says that this binary was built to be small.
func serveEtcd(string) (stop func(), err error) {
	return nil, errors.New("demo: this agent was built without an etcd server (build tag noetcdserver)")
}
