from germane.cli import main

main()
