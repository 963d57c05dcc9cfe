"""What runs in the sandbox: copied into the folder of packages. The standard library only."""
