# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The lab's simple rule, for comparison: a labelled node advertises one nvidia.com/ resource above 0, and it fits.
package main

import rego.v1

deny contains message if {
	some node in input.items
	use := node.metadata.labels["nvidia.com/gpu.workload.config"]
	names := [name | some name, quantity in node.status.allocatable; startswith(name, "nvidia.com/"); quantity != "0"]
	not fits(use, names)
	message := sprintf("%s is not what its label %s says: %v", [node.metadata.name, use, names])
}

fits("container", ["nvidia.com/gpu"])

fits("vm-vgpu", names) if {
	count(names) == 1
	regex.match(`-[0-9]+[A-Z]$`, names[0])
}

fits("vm-passthrough", names) if {
	count(names) == 1
	names[0] != "nvidia.com/gpu"
	not regex.match(`-[0-9]+[A-Z]$`, names[0])
}
