"""What runs within the watched program: any Python from 3.9 on, and nothing but its standard library."""
