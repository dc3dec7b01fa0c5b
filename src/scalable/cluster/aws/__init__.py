"""Workers on AWS: tasks on Fargate or instances of EC2."""
