// SPDX-License-Identifier: Apache-2.0

//go:build tools

package kubernetes

import _ "k8s.io/kubernetes/test/e2e"
